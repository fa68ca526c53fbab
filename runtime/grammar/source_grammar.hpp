#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/grammar/grammar_compiler.hpp"

#include <string>

namespace paceline::grammar {

/// `source` as a grammar in EBNF whose first rule is "root". Errors as compiler::compile has them.
expected<std::string> to_ebnf(const grammar_source& source);

} // namespace paceline::grammar
