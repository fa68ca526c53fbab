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

/// SentencePiece's BPE: of all adjacent pairs whose concatenation is a token, the pair whose token has the
/// highest score is merged first. Two characters that are adjacent in no token are never merged. So the text
/// is divided at such places into stretches, which are encoded separately, with the same result. Characters
/// that are no token become the "<0xHH>" tokens of their bytes. Const and thread-safe.
class spm_model {
 public:
  using workspace = merge_list;

  /// `scores` has one finite value for each token, or is empty (all equal). `unknown` replaces characters
  /// that cannot be written even by byte tokens.
  spm_model(std::shared_ptr<const token_table> tokens, const std::vector<float>& scores,
            std::optional<token_id> unknown);

  /// Appends the tokens of `text`: well-formed UTF-8 with U+2581 for spaces.
  /// Stops once `out` has more than `max_tokens`.
  void encode(std::string_view text, workspace& work, std::vector<token_id>& out,
              std::size_t max_tokens = static_cast<std::size_t>(-1)) const;
  /// True if every text can be encoded without unknown or dropped characters.
  bool spells_all_bytes() const;

 private:
  /// End of a stretch that begins at `begin`, chosen so that no token crosses it.
  std::size_t end_of_stretch(std::string_view text, std::size_t begin) const;
  void encode_stretch(std::string_view text, workspace& work, std::vector<token_id>& out,
                      std::size_t max_tokens) const;
  void emit(std::string_view spelling, std::vector<token_id>& out) const;

  std::shared_ptr<const token_table> tokens_;
  token_neighbours neighbours_;
  std::vector<std::uint32_t> priorities_;            ///< by token: the rank by descending score
  std::vector<std::optional<token_id>> byte_tokens_; ///< by byte
  std::optional<token_id> unknown_;
};

} // namespace paceline::tokenizer
