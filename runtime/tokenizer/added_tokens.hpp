#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/tokenizer/pre_tokenizers/regex.hpp"
#include "runtime/tokenizer/text/token_table.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::tokenizer {

/// A token whose spelling is searched in the text first. The tokenizer's model (such as BPE) then divides the
/// text between these tokens.
struct added_token {
  token_id id;
  std::string spelling;
  bool special = false;     ///< matched only with `parse_special`
  bool single_word = false; ///< not inside a word
  bool strip_left = false;  ///< removes the spaces before it
  bool strip_right = false; ///< removes the spaces after it
};

/// A part of a text, or an added token found in it.
struct text_segment {
  text_range range; ///< of the text
  std::optional<token_id> token;
};

/// Which of several overlapping spellings is matched.
enum class match_order : std::uint8_t {
  /// As in llama.cpp: longer spellings are searched first, in the whole text; each from left to right.
  longest_spelling,
  leftmost, ///< tokenizer.json: the leftmost spelling; of several that begin there the longest
};

/// Finds added tokens. Time is proportional to the length of the text times the number of different spelling
/// lengths. With `longest_spelling`, each different token found adds one search of the text. Const and
/// thread-safe.
class added_tokens {
 public:
  added_tokens() = default;
  added_tokens(std::vector<added_token> tokens, match_order order);

  /// Divides `text` (well-formed UTF-8) into segments. No segment is empty, and no two segments without a
  /// token are adjacent. Spaces that a token strips are in no segment.
  std::vector<text_segment> split(std::string_view text, bool parse_special) const;

 private:
  /// Index in tokens_ of the longest spelling that begins at `at`.
  std::optional<std::size_t> longest_at(std::string_view text, std::size_t at) const;
  std::vector<text_segment> split_leftmost(std::string_view text, bool parse_special) const;
  std::vector<text_segment> split_by_length(std::string_view text, bool parse_special) const;
  std::vector<std::size_t> present(std::string_view text, bool parse_special) const;

  match_order order_ = match_order::leftmost;
  std::vector<added_token> tokens_;                     ///< longest first, equal lengths by id
  token_table spellings_;                               ///< ids are indices of tokens_
  std::array<std::vector<std::uint32_t>, 256> lengths_; ///< of spellings by first byte, longest first
};

} // namespace paceline::tokenizer
