#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/row_batch.hpp"
#include "runtime/speculation/control/draft_length.hpp"
#include "runtime/speculation/drafters/drafter.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace paceline::speculation {

/// The number of tokens that the inner drafter of a cascade guesses at once. If all guesses were right it
/// grows to their number plus 2 (and does not fall, because at the end of a draft fewer guesses may have been
/// made); otherwise it becomes the number of right guesses plus 1. After `patience` misses in a row, only one
/// call in `rounds_a_look` guesses a token.
class guess_length {
 public:
  std::uint32_t next() noexcept {
    if (num_misses_ < patience) return length_;
    return ++num_misses_ % rounds_a_look == 0 ? 1 : 0;
  }
  void on_verified(std::uint32_t num_guesses, std::uint32_t num_right) noexcept {
    num_misses_ = num_right > 0 ? 0 : num_misses_ + 1;
    length_ = num_right == num_guesses ? std::max(length_, num_guesses + 2) : num_right + 1;
  }

 private:
  static constexpr std::uint32_t patience = 4, rounds_a_look = 8;
  std::uint32_t length_ = 4;
  std::uint32_t num_misses_ = 0; ///< number of calls in a row in which no guess was right
};

/// The cells of one request in the drafter's own pool.
///
/// Invariant: the cell of slot i, i < cached().size(), was written by passes over cached()[0..i], which are
/// the request's tokens as known at that time; the cell of slot cached().size() + b was written for token b
/// of the branches (a tree over the context at that time). Tokens are those of the drafter's own vocabulary.
class model_session final : public drafter_session {
 public:
  std::span<const token_id> cached() const noexcept { return cached_; }
  std::size_t num_branches() const noexcept { return branches_.size(); }
  kv_slot next_slot() const noexcept {
    return kv_slot{static_cast<std::uint32_t>(cached_.size() + branches_.size())};
  }

  /// Declares that the cells of `tokens`, which begin the context, have been computed already. The session
  /// must be new.
  void take_over(std::span<const token_id> tokens);
  /// Notes that a token of the context is fed to the next slot. There must be no branches.
  void feed(token_id token);
  /// Notes that a draft token is fed to the next slot; `parent` is a branch's number or `token_tree::root`.
  /// Returns the number of the new branch.
  std::int32_t feed_branch(token_id token, std::int32_t parent);
  /// Forgets the branches from number `count` on.
  void keep_branches(std::size_t count) { branches_.resize(std::min(count, branches_.size())); }
  /// Slots of the branches from the root to `branch`, which is included; empty if slots and positions are
  /// equal along the path.
  std::vector<kv_slot> path_to(std::int32_t branch) const;

  /// Adapts the cells to `context`: keeps the leading cells whose tokens agree with it, and the cells of
  /// branches along which it went, which are moved to their positions. Forgets all others. Returns the moves,
  /// to be carried out in order before the next pass.
  std::vector<device::kv_copy> settle(std::span<const token_id> context, std::span<const block_id> blocks,
                                      std::uint32_t block_size);
  /// The context may change until the next call, except for its first `num_settled` tokens.
  void doubt_beyond(std::size_t num_settled) noexcept { num_agreed_ = std::min(num_agreed_, num_settled); }

  /// Forgets all cells, because it is unknown which were written.
  void forget_all();

  std::unique_ptr<drafter_session> clone() const override { return std::make_unique<model_session>(*this); }
  void forget_draft() override { branches_.clear(); }
  void end(const ended_request& request) noexcept override {
    if (inner) inner->end(request);
  }
  cell_counts num_cells() const noexcept override {
    return {static_cast<std::uint32_t>(cached_.size()), next_slot().value};
  }

  /// The request's text in the drafter's vocabulary, if it is not the target's.
  std::vector<token_id> own_text;
  std::size_t num_translated = 0;   ///< number of the target's tokens that `own_text` covers
  std::size_t first_translated = 0; ///< index of the first of them
  /// Of a cascade: the session of the inner drafter. Clones share it, because it learns from committed tokens
  /// only.
  std::shared_ptr<drafter_session> inner = {};
  guess_length num_guesses = {};              ///< of a cascade
  std::optional<entropy_length> lengths = {}; ///< for rule `entropy`

 private:
  struct branch {
    token_id token;
    std::int32_t parent;
  };

  std::vector<token_id> cached_;
  std::size_t num_agreed_ = 0; ///< leading tokens known to be committed, which never change
  std::vector<branch> branches_;
};

} // namespace paceline::speculation
