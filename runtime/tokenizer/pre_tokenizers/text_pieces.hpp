#pragma once

#include "runtime/tokenizer/pre_tokenizers/regex.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace paceline::tokenizer {

/// A text divided into words. Ranges are ascending, disjoint and not empty; the text between them was
/// removed.
struct text_pieces {
  std::string text; ///< well-formed UTF-8
  std::vector<text_range> ranges;

  /// The whole text as one piece.
  explicit text_pieces(std::string whole) : text(std::move(whole)) {
    if (!text.empty()) ranges.push_back({0, text.size()});
  }

  std::string_view operator[](text_range range) const noexcept {
    return std::string_view(text).substr(range.begin, range.end - range.begin);
  }
};

} // namespace paceline::tokenizer
