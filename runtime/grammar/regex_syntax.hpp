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

/// A regular expression in ECMAScript's syntax, without back-references and look-around.
struct regex_node {
  enum class kind : std::uint8_t { characters, sequence, choice, repeat, begin_anchor, end_anchor };
  kind what = kind::sequence; ///< an empty sequence matches the empty text
  code_set characters;
  std::vector<regex_node> parts; ///< of a sequence or choice; one for `repeat`
  std::uint32_t min = 0;
  std::uint32_t max = 0; ///< `unbounded`: any number
};

inline constexpr std::uint32_t unbounded = 0xFFFFFFFF;

/// Errors name the position, in bytes from 0. errc::invalid_argument: wrong syntax. errc::unsupported:
/// look-around, back-references, word boundaries, Unicode properties, flags, more than 32 nested groups, more
/// than 64 of "*", "+" and "?" together, and expressions with more than 2,000 characters after repetitions
/// are written out (a character set counts once more for each 16 of its ranges).
expected<regex_node> parse_regex(std::string_view text);

/// How characters are written in the text that is matched.
enum class text_form : std::uint8_t {
  plain,
  json_string, ///< between the quotes of a JSON string, with its escapes
};

/// Converts `regex` to an EBNF expression for whole texts. With `is_whole` the regular expression must match
/// the whole text; otherwise it may match a part of it, unless it has anchors, as in JSON Schema.
/// errc::unsupported for anchors that are not at an edge. `add_rule` takes the body of a rule and returns the
/// rule's name.
expected<std::string> to_ebnf(const regex_node& regex, text_form form, bool is_whole,
                              const std::function<std::string(const std::string&)>& add_rule);

/// The rule that `json_string` expressions refer to: any character of a JSON string, or its escape.
inline constexpr std::string_view json_character_rule = "json_character";
/// EBNF for this rule and the rules that it refers to.
std::string json_character_rules();
/// The spellings of a set's characters in a JSON string, as EBNF alternatives.
std::vector<std::string> json_spellings(const code_set& set);
/// The characters that a JSON string may contain without an escape; the second function returns them as EBNF.
const code_set& raw_in_json();
std::string json_plain_characters();

} // namespace paceline::grammar
