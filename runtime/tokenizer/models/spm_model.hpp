#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/tokenizer/models/merge_list.hpp"
#include "runtime/tokenizer/text/token_lengths.hpp"
#include "runtime/tokenizer/text/token_table.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace paceline::tokenizer {

/// SentencePiece's BPE: of all adjacent pairs whose concatenation is an entry, the one of highest score is
/// merged first. What no entry has side by side is never merged, so that a text is encoded in stretches
/// between such places, with the same result. Characters without entry become their bytes' "<0xHH>" entries.
/// Const and thread-safe.
class spm_model {
 public:
  using workspace = merge_list;

  /// `scores` has one finite value a token, or is empty (all equal). `unknown` stands for what not even bytes
  /// spell.
  spm_model(std::shared_ptr<const token_table> tokens, const std::vector<float>& scores,
            std::optional<token_id> unknown);

  /// Appends the tokens of `text`: well-formed UTF-8 with U+2581 for spaces.
  /// Stops once `out` has more than `max_tokens`.
  void encode(std::string_view text, workspace& work, std::vector<token_id>& out,
              std::size_t max_tokens = static_cast<std::size_t>(-1)) const;
  /// Whether every text has tokens: nothing is unknown, nothing vanishes.
  bool spells_all_bytes() const;

 private:
  /// Where a stretch that begins at `begin` may end so that no token crosses its end.
  std::size_t end_of_stretch(std::string_view text, std::size_t begin) const;
  void encode_stretch(std::string_view text, workspace& work, std::vector<token_id>& out,
                      std::size_t max_tokens) const;
  void emit(std::string_view spelling, std::vector<token_id>& out) const;

  std::shared_ptr<const token_table> tokens_;
  token_neighbours neighbours_;
  std::vector<std::uint32_t> priorities_;            ///< by token: the order of descending scores as numbers
  std::vector<std::optional<token_id>> byte_tokens_; ///< by byte
  std::optional<token_id> unknown_;
};

} // namespace paceline::tokenizer
