#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace paceline {

/// The texts of `parts` behind each other, with `separator` between them. `text` makes a text of a part.
template <class Range, class Text = std::identity>
std::string joined(const Range& parts, std::string_view separator, Text text = {}) {
  std::string out;
  for (const auto& part : parts) out.append(out.empty() ? "" : separator).append(std::invoke(text, part));
  return out;
}

} // namespace paceline
