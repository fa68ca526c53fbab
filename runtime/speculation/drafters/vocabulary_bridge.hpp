#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/speculation/trees/token_tree.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::speculation {

/// Translates tokens between a drafter and a target that have different vocabularies.
///
/// `intersection` (token-level intersection, Timor et al. 2025, algorithm 4): the drafter may propose only
/// tokens that both vocabularies have, that is, tokens with the same bytes. Scores are moved from the
/// drafter's ids to the target's ids; all other tokens get -infinity. In the text that the drafter reads, a
/// token of the target becomes the equal token of the drafter; if there is none, its text is tokenized alone
/// with the drafter's vocabulary.
///
/// `retokenise` (universal assisted generation): text is exchanged. The drafter reads and writes its own
/// tokens, and the text of its draft is tokenized for the target.
///
/// Control tokens (such as the roles of a chat) with the same spelling in both vocabularies are translated to
/// each other, and so are the tokens that end a generation. The target's BOS is dropped; the drafter's own
/// BOS begins its text if its vocabulary adds one. The drafter reads the target's other control tokens as
/// text.
class vocabulary_bridge {
 public:
  enum class method : std::uint8_t { intersection, retokenise };

  /// Error if the vocabularies have no text token in common (`intersection`).
  static expected<std::shared_ptr<const vocabulary_bridge>>
  make(method how, std::shared_ptr<const tokenizer::tokenizer> own,
       std::shared_ptr<const tokenizer::tokenizer> target, std::uint32_t own_vocab_size,
       std::uint32_t target_vocab_size);

  method how() const noexcept { return how_; }
  std::size_t num_shared() const noexcept { return shared_.size(); }

  /// Extends `own`, the translation of the first `first` tokens of `committed`, by the other tokens of
  /// `committed`. `retokenise` replaces the last few own tokens, because the text after a word can change how
  /// the word is divided into tokens.
  void extend(std::vector<token_id>& own, std::span<const token_id> committed, std::size_t first) const;

  /// Only for `intersection`: the drafter's token that equals `target`; -1 if there is none.
  token_id own_token(token_id target) const noexcept;
  /// Converts scores over the drafter's vocabulary to scores over the target's.
  void translate(std::span<const float> own, std::span<float> target) const noexcept;

  /// Only for `retokenise`: the target's tokens for the text of the drafter's tokens `drafted` after
  /// `committed`.
  std::vector<token_id> target_tokens(std::span<const token_id> committed,
                                      std::span<const token_id> drafted) const;

 private:
  struct pair {
    token_id own;
    token_id target;
  };

  vocabulary_bridge() = default;
  void find_shared();
  bool has_text(token_id target) const;
  std::string text_of(std::span<const token_id> target) const;
  void append(std::vector<token_id>& own, std::span<const token_id> target,
              std::size_t num_bytes_known) const;
  std::vector<token_id> tokens_behind(std::span<const token_id> committed, std::string_view text) const;

  method how_ = method::intersection;
  std::shared_ptr<const tokenizer::tokenizer> own_;
  std::shared_ptr<const tokenizer::tokenizer> target_;
  std::uint32_t own_vocab_size_ = 0;
  std::uint32_t target_vocab_size_ = 0;
  /// Sorted by the drafter's token. If several target tokens equal the same token of the drafter, only the
  /// lowest of them is listed.
  std::vector<pair> shared_;
  std::vector<std::int32_t> own_of_target_; ///< -1: none
};

} // namespace paceline::speculation
