#pragma once

#include "runtime/base/expected.hpp"

#include <string>
#include <string_view>

namespace paceline::tokenizer {

/// Translates a pattern from Oniguruma's Ruby syntax, which tokenizer files use, to PCRE2's syntax (10.42,
/// with UTF, UCP and MULTILINE). The differences:
///   - members of \s, \w, \b, \h, \v, POSIX classes and properties (a script's name means Script, not
///     Script_Extensions; general categories have long names);
///   - classes within classes and their intersections, which PCRE2 spells with lookahead;
///   - in "{n,m}+" and "{n}?", the last character is a quantifier of the interval (in PCRE2 it makes the
///     interval possessive or lazy); "{,m}" begins at 0; (?m) lets dots match newlines.
/// The error (errc::unsupported) contains the pattern and the unsupported part.
expected<std::string> pcre2_pattern(std::string_view pattern);

} // namespace paceline::tokenizer
