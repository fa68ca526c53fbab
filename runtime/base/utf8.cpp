#include "runtime/base/utf8.hpp"

namespace paceline {

namespace {

/// For a lead byte: the permitted values of the next byte (Unicode 15, table 3-7) and the length.
struct lead_rule {
  std::uint8_t length = 0; ///< 0: the byte begins no character
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xbf;
};

constexpr lead_rule rule_of(std::uint8_t lead) noexcept {
  if (lead < 0xc2) return {0};
  if (lead < 0xe0) return {2};
  if (lead == 0xe0) return {3, 0xa0};
  if (lead == 0xed) return {3, 0x80, 0x9f};
  if (lead < 0xf0) return {3};
  if (lead == 0xf0) return {4, 0x90};
  if (lead < 0xf4) return {4};
  if (lead == 0xf4) return {4, 0x80, 0x8f};
  return {0};
}

} // namespace

utf8_unit read_long_utf8(std::string_view text, std::size_t at) noexcept {
  const auto byte_at = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte_at(at);
  const lead_rule rule = rule_of(lead);
  if (rule.length == 0) return {utf8_unit::state::ill_formed, 1, 0};
  char32_t code_point = lead & (0x7fU >> rule.length);
  for (std::uint8_t i = 1; i < rule.length; ++i) {
    if (at + i >= text.size()) return {utf8_unit::state::cut_off, i, 0};
    const std::uint8_t byte = byte_at(at + i);
    const std::uint8_t low = i == 1 ? rule.low : 0x80;
    const std::uint8_t high = i == 1 ? rule.high : 0xbf;
    if (byte < low || byte > high) return {utf8_unit::state::ill_formed, i, 0};
    code_point = (code_point << 6) | (byte & 0x3fU);
  }
  return {utf8_unit::state::complete, rule.length, code_point};
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xc0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    put(0xe0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3f));
    put(0x80 | (code_point & 0x3f));
  } else {
    put(0xf0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3f));
    put(0x80 | ((code_point >> 6) & 0x3f));
    put(0x80 | (code_point & 0x3f));
  }
}

bool is_well_formed_utf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const utf8_unit unit = read_utf8(text, at);
    if (unit.kind != utf8_unit::state::complete) return false;
    at += unit.num_bytes;
  }
  return true;
}

std::string replace_ill_formed_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const utf8_unit unit = read_utf8(text, at);
    out.append(unit.kind == utf8_unit::state::complete ? text.substr(at, unit.num_bytes)
                                                       : replacement_character);
    at += unit.num_bytes;
  }
  return out;
}

} // namespace paceline
