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

/// The number of tokens that the inner drafter of a cascade guesses at once. If all n guesses were right, the
/// length becomes n + 2, or stays if it is larger (n may be small only because the draft ended). If a guess
/// was wrong, the length becomes the number of right guesses plus 1. After `patience` calls in a row without
/// a right guess, only one call in `rounds_a_look` guesses a token.
class guess_length {
 public:
  std::uint32_t next() noexcept {
    if (num_misses_ < patience) return length_;
    return ++num_misses_ % rounds_a_look == 0 ? 1 : 0;
  }
  void on_verified(std::uint32_t num_guesses, std::uint32_t num_right) noexcept {
    if (num_right > 0)
      num_misses_ = 0;
    else if (num_misses_ < patience) // else `next` has counted the call
      ++num_misses_;
    length_ = num_right == num_guesses ? std::max(length_, num_guesses + 2) : num_right + 1;
  }

 private:
  static constexpr std::uint32_t patience = 4, rounds_a_look = 8;
  std::uint32_t length_ = 4;
  /// Calls in a row without a right guess. From `patience` on, `next` adds 1 for each of its calls.
  std::uint32_t num_misses_ = 0;
};

/// The cells of one request in the drafter's own pool.
///
/// Invariant: slot i with i < cached().size() has the keys and values of cached()[i], computed after
/// cached()[0..i-1]. Slot cached().size() + b has the keys and values of branch b. A branch is one draft
/// token that was fed; the branches form a tree whose root is the last cached token. If the request's tokens
/// have changed since, `settle` restores agreement. Tokens are those of the drafter's own vocabulary.
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
  /// The slots of the path from the root's first child to `branch`, inclusive. Empty if each slot on the path
  /// equals its position, because `row_batch` then needs no path.
  std::vector<kv_slot> path_to(std::int32_t branch) const;

  /// Makes the cells agree with `context`. It keeps the longest prefix of cached cells whose tokens equal
  /// those of `context`. If all cached cells are kept, it also keeps the branches whose tokens come next in
  /// `context`; their cells must move to the slots of their positions. All other cells are forgotten.
  /// Returns these moves; the caller executes them in order before the next pass.
  std::vector<device::kv_copy> settle(std::span<const token_id> context, std::span<const block_id> blocks,
                                      std::uint32_t block_size);
  /// Makes the next `settle` compare the cached tokens from index `num_settled` on again, because in a beam
  /// search the text may have changed there since the last `settle`.
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

  /// If the drafter has its own vocabulary: the request's text in it. The oldest part may have been dropped.
  std::vector<token_id> own_text;
  /// Number of leading target tokens translated so far, including those whose translation was dropped.
  std::size_t num_translated = 0;
  /// For a cascade: the session of the inner drafter. Clones share it, because it learns from committed
  /// tokens only.
  std::shared_ptr<drafter_session> inner = {};
  guess_length num_guesses = {};              ///< of a cascade
  std::optional<entropy_length> lengths = {}; ///< for rule `entropy`

 private:
  struct branch {
    token_id token;
    std::int32_t parent;
  };

  std::vector<token_id> cached_;
  std::size_t num_agreed_ = 0; ///< leading cached tokens that agreed at the last `settle`; not compared again
  std::vector<branch> branches_;
};

} // namespace paceline::speculation
