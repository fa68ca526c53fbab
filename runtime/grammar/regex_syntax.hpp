#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/grammar/code_points.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::grammar {

/// A regular expression, in the part of ECMAScript's syntax that has no memory and no look-around.
struct regex_node {
  enum class kind : std::uint8_t { characters, sequence, choice, repeat, begin_anchor, end_anchor };
  kind what = kind::sequence; ///< a sequence of nothing is the empty text
  code_set characters;
  std::vector<regex_node> parts; ///< of a sequence or choice; one for `repeat`
  std::uint32_t min = 0;
  std::uint32_t max = 0; ///< `unbounded`: any number
};

inline constexpr std::uint32_t unbounded = 0xFFFFFFFF;

/// Errors name the position, in bytes from 0: errc::invalid_argument for wrong syntax, errc::unsupported for
/// look-around, back-references, word boundaries, Unicode properties, flags, more than 32 nested groups, and
/// expressions that stand for more than 2,000 characters when repetitions are written out (a set counts once
/// more for each 16 of its ranges), and more than 64 "*", "+" and "?".
expected<regex_node> parse_regex(std::string_view text);

/// How characters are written in the text that is matched.
enum class text_form : std::uint8_t {
  plain,
  json_string, ///< between the quotes of a JSON string, with its escapes
};

/// As an EBNF expression that matches the whole text. Unless `is_whole`, the expression may match a part of
/// the text if it has no anchors, as in JSON Schema. errc::unsupported for anchors that are not at an edge.
/// `add_rule` adds a rule with a body and gives its name.
expected<std::string> to_ebnf(const regex_node& regex, text_form form, bool is_whole,
                              const std::function<std::string(const std::string&)>& add_rule);

/// The rule that `json_string` expressions refer to: any character of a JSON string, or its escape.
inline constexpr std::string_view json_character_rule = "json_character";
/// Its definition, with the rules that it refers to.
std::string json_character_rules();
/// The spellings of a set's characters in a JSON string, as EBNF alternatives.
std::vector<std::string> json_spellings(const code_set& set);
/// What a JSON string has as it is, and as EBNF.
const code_set& raw_in_json();
std::string json_plain_characters();

} // namespace paceline::grammar
