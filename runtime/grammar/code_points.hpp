#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::grammar {

/// Characters from `first` to `last`, both included.
struct code_range {
  std::uint32_t first;
  std::uint32_t last;
};

/// A set of characters: ascending ranges that neither overlap nor are adjacent.
using code_set = std::vector<code_range>;

inline constexpr std::uint32_t last_code_point = 0x10FFFF;

/// The set of the characters in `ranges`, which may overlap and be in any order. Surrogates are left out,
/// because they are not characters.
code_set to_set(std::vector<code_range> ranges);
code_set complement(const code_set& set);
bool contains(const code_set& set, std::uint32_t code);
code_set intersection(const code_set& a, const code_set& b);

/// Reads the UTF-8 character at byte `at` (< text.size()) and advances `at` past it. nullopt, with `at`
/// unchanged, if the character is ill-formed.
std::optional<std::uint32_t> next_code_point(std::string_view text, std::size_t& at);

/// Appends `set` as an EBNF character class, "[a-z]".
void append_class(std::string& out, const code_set& set);
/// Appends `text`, which may have any bytes, as an EBNF string with quotes.
void append_literal(std::string& out, std::string_view text);

} // namespace paceline::grammar
