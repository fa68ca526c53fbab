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

/// What stands between a drafter's vocabulary and another one of its target.
///
/// `intersection` (token-level intersection, Timor et al. 2025, algorithm 4): the drafter may say tokens that
/// both vocabularies have, that is, of the same bytes; its scores are moved to the target's ids, all other
/// tokens have none. What the target says is spelled token by token in the drafter's vocabulary.
/// `retokenise` (universal assisted generation): text goes to and fro; the drafter reads and writes its own
/// tokens, and its text is tokenised for the target.
///
/// Control tokens (the roles of a chat) that both vocabularies spell alike are one token in both, and so are
/// the tokens that end a generation. Others of the target the drafter reads as text, but for the one that
/// begins a text: the drafter has its own.
class vocabulary_bridge {
 public:
  enum class method : std::uint8_t { intersection, retokenise };

  /// Fails if they have no text token in common
  /// (`intersection`).
  static expected<std::shared_ptr<const vocabulary_bridge>>
  make(method how, std::shared_ptr<const tokenizer::tokenizer> own,
       std::shared_ptr<const tokenizer::tokenizer> target, std::uint32_t own_vocab_size,
       std::uint32_t target_vocab_size);

  method how() const noexcept { return how_; }
  std::size_t num_shared() const noexcept { return shared_.size(); }

  /// Continues `own`, the text of the target's tokens before `first` in the own vocabulary, by the text of
  /// the others of `committed`. `retokenise` takes the last few own tokens back, since what follows decides
  /// how a word is split.
  void extend(std::vector<token_id>& own, std::span<const token_id> committed, std::size_t first) const;

  /// The own token of a draft token of the target; `intersection`.
  token_id own_token(token_id target) const noexcept;
  /// Scores of the own vocabulary as scores of the target's.
  void translate(std::span<const float> own, std::span<float> target) const noexcept;

  /// The target's tokens for the text of `drafted` own tokens behind `committed`; `retokenise`.
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
  std::vector<pair> shared_;                ///< ascending by the own token; of equal ones the lowest target
  std::vector<std::int32_t> own_of_target_; ///< -1: none
};

} // namespace paceline::speculation
