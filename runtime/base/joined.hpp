#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>

namespace paceline {

/// Concatenates the texts of `parts` with `separator` between them. `text` turns a part into text. Exception:
/// no separator follows texts at the beginning that are empty.
template <class Range, class Text = std::identity>
std::string joined(const Range& parts, std::string_view separator, Text text = {}) {
  std::string out;
  for (const auto& part : parts) out.append(out.empty() ? "" : separator).append(std::invoke(text, part));
  return out;
}

/// "a", "a and b", "a, b and c". `text` turns a part into text.
template <class Range, class Text = std::identity>
std::string listed(const Range& parts, Text text = {}) {
  std::string out;
  std::size_t rest = std::size(parts);
  for (const auto& part : parts) {
    const bool is_first = rest == std::size(parts);
    out.append(is_first ? "" : rest == 1 ? " and " : ", ").append(std::invoke(text, part));
    --rest;
  }
  return out;
}

} // namespace paceline
