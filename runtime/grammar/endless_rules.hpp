#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paceline::grammar {

/// The names of the rules that `start` reaches and that match no finite text, because each of their
/// alternatives needs such a rule again: `list ::= "[" list "]"`. `ebnf` has one rule a line, as
/// `schema_writer` writes them; a rule consists of literals, character classes, names, groups, alternatives
/// and repetitions. A name for which `ebnf` has no rule is assumed to match a finite text. The result is in
/// the order of the rules.
std::vector<std::string> endless_rules(std::string_view ebnf, std::string_view start);

} // namespace paceline::grammar
