#include "runtime/grammar/regex_syntax.hpp"

#include <algorithm>

namespace paceline::grammar {

namespace {

using kind = regex_node::kind;
using places = std::vector<bool>; ///< one for each place between characters

places joined(places a, const places& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = a[i] || b[i];
  return a;
}

/// Where matches of `node` may end that begin at `from`.
places ends(const regex_node& node, const std::vector<std::uint32_t>& text, const places& from) {
  places out(from.size(), false);
  switch (node.what) {
  case kind::characters:
    for (std::size_t i = 0; i < text.size(); ++i)
      if (from[i] && contains(node.characters, text[i])) out[i + 1] = true;
    return out;
  case kind::begin_anchor:
    out.front() = from.front();
    return out;
  case kind::end_anchor:
    out.back() = from.back();
    return out;
  case kind::sequence:
    out = from;
    for (const auto& part : node.parts) out = ends(part, text, out);
    return out;
  case kind::choice:
    for (const auto& part : node.parts) out = joined(std::move(out), ends(part, text, from));
    return out;
  case kind::repeat:
    break;
  }
  places now = from;
  for (std::uint32_t i = 0; i < node.min; ++i) {
    places next = ends(node.parts.front(), text, now);
    if (next == now) break; // it stays as it is
    now = std::move(next);
  }
  for (std::uint32_t i = node.min; i < node.max; ++i) {
    places next = joined(now, ends(node.parts.front(), text, now));
    if (next == now) break;
    now = std::move(next);
  }
  return now;
}

} // namespace

bool matches(const regex_node& regex, std::string_view text) {
  std::vector<std::uint32_t> codes;
  for (std::size_t at = 0; at < text.size();) {
    const auto code = next_code_point(text, at);
    if (!code) return false;
    codes.push_back(*code);
  }
  const places all(codes.size() + 1, true);
  const places found = ends(regex, codes, all);
  return std::find(found.begin(), found.end(), true) != found.end();
}

} // namespace paceline::grammar
