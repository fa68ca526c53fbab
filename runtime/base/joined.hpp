#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace paceline {

/// Concatenates the texts of `parts` with `separator` between them. `text` turns a part into text. No
/// separator follows empty texts at the beginning.
template <class Range, class Text = std::identity>
std::string joined(const Range& parts, std::string_view separator, Text text = {}) {
  std::string out;
  for (const auto& part : parts) out.append(out.empty() ? "" : separator).append(std::invoke(text, part));
  return out;
}

} // namespace paceline
