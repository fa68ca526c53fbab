#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/grammar/grammar_compiler.hpp"

#include <string>

namespace paceline::grammar {

/// `source` as a grammar in EBNF whose first rule is "root". Errors as compiler::compile has them.
expected<std::string> to_ebnf(const grammar_source& source);

/// Checks what an EBNF text of a client may contain: no macros and attributes of XGrammar, which have effects
/// beyond the text, at most 32 nested groups, and no number above 128. Errors name the line.
expected<void> check_ebnf(std::string_view text);

} // namespace paceline::grammar
