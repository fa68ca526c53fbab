#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/grammar/code_points.hpp"
#include "runtime/grammar/repetitions.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::grammar {

/// A regular expression in ECMAScript's syntax, without back-references. Look-aheads occur only in the
/// sequence that is the whole expression. Its first part is then a `begin_anchor`, and the look-aheads
/// follow.
struct regex_node {
  enum class kind : std::uint8_t {
    characters,
    sequence,
    choice,
    repeat,
    begin_anchor,
    end_anchor,
    look_ahead,         ///< "(?=...)"
    negative_look_ahead ///< "(?!...)"
  };
  kind what = kind::sequence; ///< an empty sequence matches the empty text
  code_set characters;
  std::vector<regex_node> parts; ///< of a sequence or choice; one for `repeat` and look-aheads
  std::uint32_t min = 0;
  std::uint32_t max = 0; ///< `unbounded`: any number
};

inline constexpr std::uint32_t unbounded = 0xFFFFFFFF;

/// Errors name the position, in bytes from 0. errc::invalid_argument: wrong syntax. errc::unsupported:
/// look-around elsewhere, back-references, word boundaries, Unicode properties, flags, more than 32 nested
/// groups, more than 64 of "*", "+" and "?" together, counts above 10,000, and expressions that have more
/// than 2,000 characters when repetitions are written out (a character set counts as one more character for
/// each 16 of its ranges).
expected<regex_node> parse_regex(std::string_view text);

/// How characters are written in the text that is matched.
enum class text_form : std::uint8_t {
  plain,
  json_string, ///< between the quotes of a JSON string, with its escapes
};

/// Converts `regex` to an EBNF expression for whole texts. With `is_whole` the regular expression must match
/// the whole text. Otherwise it may match a part of the text, as in JSON Schema, except where it has anchors.
/// errc::unsupported for look-aheads and for anchors that are not at an edge. `add_rule` takes the body of a
/// rule and returns the rule's name.
expected<std::string> to_ebnf(const regex_node& regex, text_form form, bool is_whole,
                              const rule_adder& add_rule);

/// The rule that `json_string` expressions refer to: any character of a JSON string, or its escape.
inline constexpr std::string_view json_character_rule = "json_character";
/// EBNF for this rule and the rules that it refers to.
std::string json_character_rules();
/// The spellings of the characters of `set` in a JSON string, as EBNF alternatives.
std::vector<std::string> json_spellings(const code_set& set);
/// The characters that a JSON string may contain without an escape; `json_plain_characters` returns them as
/// EBNF.
const code_set& raw_in_json();
std::string json_plain_characters();

} // namespace paceline::grammar
