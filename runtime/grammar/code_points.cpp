#include "runtime/grammar/code_points.hpp"

#include "runtime/base/utf8.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>

namespace paceline::grammar {

namespace {

constexpr std::uint32_t first_surrogate = 0xD800;
constexpr std::uint32_t last_surrogate = 0xDFFF;

void append_escaped(std::string& out, std::uint32_t code) {
  const bool is_plain =
      (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') || (code >= 'a' && code <= 'z');
  if (is_plain) {
    out += static_cast<char>(code);
    return;
  }
  std::array<char, 16> text{};
  const char* form = code < 0x10000 ? "\\u%04X" : "\\U%08X";
  std::snprintf(text.data(), text.size(), form, code);
  out += text.data();
}

code_set merged(std::vector<code_range> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](code_range a, code_range b) { return a.first < b.first; });
  code_set out;
  for (const code_range range : ranges) {
    if (range.first > range.last) continue;
    if (!out.empty() && range.first <= out.back().last + 1)
      out.back().last = std::max(out.back().last, range.last);
    else
      out.push_back(range);
  }
  return out;
}

code_set inverted(const code_set& set) {
  code_set out;
  std::uint32_t next = 0;
  for (const code_range range : set) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= last_code_point) out.push_back({next, last_code_point});
  return out;
}

} // namespace

bool contains(const code_set& set, std::uint32_t code) {
  const auto behind = std::upper_bound(set.begin(), set.end(), code,
                                       [](std::uint32_t c, code_range r) { return c < r.first; });
  return behind != set.begin() && code <= std::prev(behind)->last;
}

code_set intersection(const code_set& a, const code_set& b) {
  code_set out;
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    if (x->first <= y->last && y->first <= x->last)
      out.push_back({std::max(x->first, y->first), std::min(x->last, y->last)});
    if (x->last < y->last)
      ++x;
    else
      ++y;
  }
  return out;
}

code_set to_set(std::vector<code_range> ranges) {
  return intersection(merged(std::move(ranges)),
                      {{0, first_surrogate - 1}, {last_surrogate + 1, last_code_point}});
}

code_set complement(const code_set& set) { return to_set(inverted(set)); }

std::optional<std::uint32_t> next_code_point(std::string_view text, std::size_t& at) {
  const auto unit = read_utf8(text, at);
  if (unit.kind != utf8_unit::state::complete) return std::nullopt;
  at += unit.num_bytes;
  return static_cast<std::uint32_t>(unit.code_point);
}

void append_class(std::string& out, const code_set& set) {
  out += '[';
  for (const code_range range : set) {
    append_escaped(out, range.first);
    if (range.last == range.first) continue;
    out += '-';
    append_escaped(out, range.last);
  }
  out += ']';
}

void append_literal(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const auto code = next_code_point(text, at);
    // The grammar has no spelling for ill-formed text. U+FFFD replaces it.
    append_escaped(out, code ? *code : 0xFFFDU);
    if (!code) ++at;
  }
  out += '"';
}

} // namespace paceline::grammar
