#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/tokenizer/models/merge_list.hpp"
#include "runtime/tokenizer/models/merge_table.hpp"
#include "runtime/tokenizer/text/token_table.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::tokenizer {

/// Options of a BPE vocabulary.
struct bpe_rules {
  bool ignore_merges = false;  ///< a word that is a token becomes this token, without merges (Llama 3)
  bool whole_newlines = false; ///< the same, but only for words that consist of newlines (Gemma 4)
  bool byte_fallback = false;  ///< a character that is no token becomes the "<0xHH>" tokens of its bytes
  bool fuse_unknown = false;   ///< a run of unknown characters is one `unknown`
  std::optional<token_id> unknown{}; ///< nullopt: unknown characters are dropped, as in llama.cpp
};

/// Byte-pair encoding of one word by ranked merges (Sennrich et al. 2016): the adjacent pair of lowest rank
/// is merged first. Const and thread-safe.
class bpe_model {
 public:
  using workspace = merge_list;

  /// `tokens` are those of the vocabulary; `merges` are in rank order. The result of a merge need not be a
  /// token. If such a result is left at the end, it is written as the tokens of its characters.
  bpe_model(std::shared_ptr<const token_table> tokens,
            const std::vector<std::pair<std::string, std::string>>& merges, bpe_rules rules);

  /// Appends the tokens of `word`: well-formed UTF-8, in the vocabulary's own spelling (byte-level or plain).
  /// Stops once `out` has more than `max_tokens`.
  void encode(std::string_view word, workspace& work, std::vector<token_id>& out,
              std::size_t max_tokens = static_cast<std::size_t>(-1)) const;
  /// True if every text in byte-level spelling can be encoded without unknown or dropped characters.
  bool spells_all_bytes() const;

 private:
  std::int32_t symbol_of_character(std::string_view character, char32_t code_point) const noexcept;
  void emit(std::string_view spelling, std::int32_t symbol, std::vector<token_id>& out) const;
  void emit_unmerged(std::string_view character, std::vector<token_id>& out) const;
  bool is_token(std::int32_t symbol) const noexcept {
    return symbol >= 0 && static_cast<std::size_t>(symbol) < tokens_->size();
  }

  std::shared_ptr<const token_table> tokens_;
  token_table extra_symbols_; ///< spellings that occur in merges only; ids continue those of tokens_
  merge_table merges_;
  std::vector<std::int32_t> short_characters_;       ///< symbol by code point below U+0800
  std::vector<std::optional<token_id>> byte_tokens_; ///< by byte, with byte_fallback
  bpe_rules rules_;
};

} // namespace paceline::tokenizer
