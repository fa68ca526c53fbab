#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/grammar/grammar_compiler.hpp"

#include <string>

namespace paceline::grammar {

/// Converts `source` to a grammar in EBNF whose start rule is "root". Errors: those of compiler::compile.
expected<std::string> to_ebnf(const grammar_source& source);

} // namespace paceline::grammar
