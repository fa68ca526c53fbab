#include "runtime/tokenizer/text/characters.hpp"

#include <utf8proc.h>

namespace paceline::tokenizer {

namespace {

utf8proc_category_t category(char32_t code_point) noexcept {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

} // namespace

bool is_number(char32_t code_point) noexcept {
  const auto c = category(code_point);
  return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool is_decimal_digit(char32_t code_point) noexcept { return category(code_point) == UTF8PROC_CATEGORY_ND; }

bool is_mark(char32_t code_point) noexcept {
  const auto c = category(code_point);
  return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ME;
}

bool is_space(char32_t code_point) noexcept {
  if ((code_point >= 0x09 && code_point <= 0x0d) || code_point == 0x85) return true;
  const auto c = category(code_point);
  return c == UTF8PROC_CATEGORY_ZS || c == UTF8PROC_CATEGORY_ZL || c == UTF8PROC_CATEGORY_ZP;
}

bool is_word_character(char32_t c) noexcept {
  const auto between = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  // Joiners; letters in circles and squares, which are alphabetic symbols.
  if (between(0x200c, 0x200d) || between(0x24b6, 0x24e9) || between(0x1f130, 0x1f149) ||
      between(0x1f150, 0x1f169) || between(0x1f170, 0x1f189))
    return true;
  switch (category(c)) {
  case UTF8PROC_CATEGORY_LU:
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_MC:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_ND:
  case UTF8PROC_CATEGORY_NL:
  case UTF8PROC_CATEGORY_PC:
    return true;
  default:
    return false;
  }
}

bool is_oniguruma_word_character(char32_t c) noexcept {
  if (c == 0x200c || c == 0x200d) return false;
  const bool latin1_number = c == 0xb2 || c == 0xb3 || c == 0xb9 || (c >= 0xbc && c <= 0xbe);
  return latin1_number || is_word_character(c);
}

} // namespace paceline::tokenizer
