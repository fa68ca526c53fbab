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

/// How many tokens are guessed for a drafting model at once (kind "cascade"), from how guesses fared: two
/// more after all were right, else one more than were. Fewer than that may be made, at the end of a draft: if
/// they are right that is no reason to guess fewer next time. Where none has been right of late, a guess now
/// and then.
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
  std::uint32_t num_misses_ = 0; ///< consecutive guesses of which none was right
};

/// What the drafter's own pool holds of one request.
///
/// Invariant: the cell of slot i, i < cached().size(), was written by passes over cached()[0..i], which are
/// tokens of the request as far as is known; the cell of slot cached().size() + b was written for token b of
/// the branches (a tree over the context at that time). Tokens are those of the drafter's own vocabulary.
class model_session final : public drafter_session {
 public:
  std::span<const token_id> cached() const noexcept { return cached_; }
  std::size_t num_branches() const noexcept { return branches_.size(); }
  kv_slot next_slot() const noexcept {
    return kv_slot{static_cast<std::uint32_t>(cached_.size() + branches_.size())};
  }

  /// The cells of `tokens`, with which the context begins, are there already. The session must be new.
  void take_over(std::span<const token_id> tokens);
  /// A token of the context is fed to the next slot. There must be no branches.
  void feed(token_id token);
  /// A draft token is fed to the next slot; `parent` is a branch's number or `token_tree::root`.
  std::int32_t feed_branch(token_id token, std::int32_t parent);
  /// Forgets the branches from number `count` on.
  void keep_branches(std::size_t count) { branches_.resize(std::min(count, branches_.size())); }
  /// Slots of the branches from the root to `branch`, which is included; empty if slots and positions are
  /// equal along the path.
  std::vector<kv_slot> path_to(std::int32_t branch) const;

  /// Makes the cells those of `context`: keeps the leading cells that are, and of the branches those that it
  /// went along, moved to their place. Returns the moves, to be carried out in order before the next pass.
  std::vector<device::kv_copy> settle(std::span<const token_id> context, std::span<const block_id> blocks,
                                      std::uint32_t block_size);
  /// The context may change until the next call, except for its first `num_settled` tokens.
  void doubt_beyond(std::size_t num_settled) noexcept { num_agreed_ = std::min(num_agreed_, num_settled); }

  /// It is unknown which cells were written.
  void forget_all();

  std::unique_ptr<drafter_session> clone() const override { return std::make_unique<model_session>(*this); }
  void forget_draft() override { branches_.clear(); }
  void end(const ended_request& request) noexcept override {
    if (inner) inner->end(request);
  }
  cell_counts num_cells() const noexcept override {
    return {static_cast<std::uint32_t>(cached_.size()), next_slot().value};
  }

  std::vector<token_id> own_text;   ///< the request in the own vocabulary, where that is another one
  std::size_t num_translated = 0;   ///< tokens of the target that `own_text` covers
  std::size_t first_translated = 0; ///< the first one that it does
  /// Of a cascade, its inner drafter's. Clones share it: it learns from committed tokens only.
  std::shared_ptr<drafter_session> inner = {};
  guess_length num_guesses = {};              ///< the same
  std::optional<entropy_length> lengths = {}; ///< by rule `entropy`

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
