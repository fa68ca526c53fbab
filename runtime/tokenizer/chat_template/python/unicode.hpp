#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// Text as in Python's str, stored as UTF-8. A byte that is not UTF-8 counts as one character and is kept.
namespace paceline::tokenizer::jinja {

struct character {
  char32_t code = 0;
  std::size_t size = 0; ///< bytes
};

character character_at(std::string_view text, std::size_t at) noexcept;
/// The character that ends right before byte `end` (> 0).
character character_before(std::string_view text, std::size_t end) noexcept;

bool is_ascii(std::string_view text) noexcept;
std::size_t num_characters(std::string_view text) noexcept;
/// Byte position of character `index`, or the size of `text` if it has fewer characters.
std::size_t byte_offset(std::string_view text, std::size_t index) noexcept;

/// Calls `visit(character, byte position)` for each character.
template <class Visit>
void for_each_character(std::string_view text, Visit visit) {
  for (std::size_t at = 0; at < text.size();) {
    const character c = character_at(text, at);
    visit(c, at);
    at += c.size;
  }
}

bool is_space(char32_t c) noexcept;
std::string_view without_leading_blanks(std::string_view text) noexcept;
std::string_view without_trailing_blanks(std::string_view text) noexcept;
bool is_line_break(char32_t c) noexcept;
bool is_alphabetic(char32_t c) noexcept;
bool is_decimal(char32_t c) noexcept;
bool is_digit(char32_t c) noexcept;
bool is_numeric(char32_t c) noexcept;
bool is_upper(char32_t c) noexcept;
bool is_lower(char32_t c) noexcept;
bool is_title(char32_t c) noexcept;
bool is_printable(char32_t c) noexcept;
bool is_identifier_start(char32_t c) noexcept;
bool is_identifier_part(char32_t c) noexcept;

/// Unicode's full case mappings: one character may become several.
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_casefold(std::string_view text);
std::string swap_case(std::string_view text);
/// First character in title case, the rest in lower case.
std::string capitalize(std::string_view text);
/// str.title(): every run of letters is capitalized.
std::string title_case(std::string_view text);

} // namespace paceline::tokenizer::jinja
