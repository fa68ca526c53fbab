#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/tokenizer/pre_tokenizers/regex.hpp"
#include "runtime/tokenizer/pre_tokenizers/text_pieces.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace paceline::tokenizer {

/// Groups of three digits from the right of each run: 1234567 -> 1|234|567. The equivalent patterns in files
/// take quadratic time on a long run.
struct digit_groups {
  /// A run followed by a word character is not grouped, as with Tiny Aya's pattern
  /// "\d{1,3}(?=(?:\d{3})*\b)".
  bool needs_word_boundary = false;
};

/// Spaces at the end of a line. The pattern "\s+$" takes quadratic time on runs of spaces that are followed
/// by other characters.
struct line_end_spaces {};

/// What a split does with matching parts. The names are those of tokenizer.json.
enum class split_behavior : std::uint8_t {
  removed,
  isolated,
  merged_with_previous,
  merged_with_next,
  contiguous, ///< adjacent matches become one
};

/// A rule that divides pieces into smaller ones.
class splitter {
 public:
  using matcher = std::variant<regex, std::string, digit_groups, line_end_spaces>;

  explicit splitter(matcher what, split_behavior behavior = split_behavior::isolated, bool invert = false)
      : what_(std::move(what)), behavior_(behavior), invert_(invert) {}

  /// The splitter of a pattern in a tokenizer file; known slow patterns are replaced by linear equivalents.
  static expected<splitter> from_pattern(std::string_view pattern,
                                         split_behavior behavior = split_behavior::isolated,
                                         bool invert = false);

  /// Divides every piece separately: a pattern cannot see text outside the piece.
  expected<void> apply(text_pieces& pieces, regex::scratch& work) const;

 private:
  /// A part of a piece: a match, or the text between matches.
  struct part {
    text_range range;
    bool matches;
  };

  expected<void> find_parts(std::string_view piece, std::vector<part>& parts, regex::scratch& work) const;
  void merge_parts(std::vector<part>& parts) const;

  matcher what_;
  split_behavior behavior_;
  bool invert_; ///< the text between matches counts as the match
};

} // namespace paceline::tokenizer
