#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/model/kv_model.hpp"
#include "runtime/speculation/drafters/drafter.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace paceline::rounds {

/// Where a drafter's cells of a beam search's hypotheses lie in the request's lease: each hypothesis has a
/// session and a block table. Tables share the full blocks of what their texts have in common; a hypothesis
/// that goes on from another one's text gets copies of the cells behind them. So a text is read once,
/// whichever hypotheses it belongs to, and one that takes several rounds to read is read on in each of them.
///
/// For drafters whose cells depend on the tokens up to them only (`drafter_traits::text_begin`).
///
/// Invariants: a block in several tables is full of cells that their texts have in common, so nobody writes
/// to it. Blocks of the prefix cache, with which the lease begins, are in all tables that have read the
/// prompt.
///
/// Threads: used by programs of the worker's stream.
class hypothesis_cells {
 public:
  struct layout {
    std::span<const block_id> lease; ///< begins with the previous round's
    std::uint32_t block_size = 0;
    std::uint32_t num_prompt_cells = 0; ///< what all hypotheses have in common
    std::uint32_t num_draft_cells = 0;  ///< that a draft takes behind the text
    /// So many tokens of a text are read twice rather than waited for: what a round commits.
    std::uint32_t num_read_twice = 0;
  };

  /// Begins a round, in which the hypotheses have these output tokens. `where.lease` must remain valid until
  /// the next one.
  void begin_round(std::vector<std::vector<token_id>> outputs, const layout& where);
  /// Opens further hypotheses, to be drafted for in one call before this is called again. Returns their
  /// numbers; empty: there are no others in this round. A hypothesis waits while the text that it shares with
  /// another one is being read for that one: until the next call, or the next round. One for which there are
  /// no blocks is left out. `empty`: a session that has read nothing, of which others are clones.
  std::vector<std::size_t> open_next(device::ops& ops, model::kv_storage& kv,
                                     const speculation::drafter_session& empty);

  speculation::drafter_session* session(std::size_t i) const { return now_[i].session.get(); }
  std::span<const block_id> blocks(std::size_t i) const { return now_[i].blocks; }
  /// Whether its table is the lease from its first block on, in which the final cells are.
  bool begins_lease(std::size_t i) const { return now_[i].begins_lease; }
  /// Whether one that was opened in this round has more to read than the last round's tokens.
  bool catching_up() const noexcept { return catching_up_; }

 private:
  struct hypothesis {
    std::vector<token_id> output;
    std::unique_ptr<speculation::drafter_session> session; ///< null: it is not open
    std::vector<std::uint32_t> table;                      ///< numbers of the lease's blocks
    std::vector<block_id> blocks;                          ///< the same
    bool begins_lease = false;
    bool is_behind = false; ///< it has more to read than the last round's tokens
  };

  std::uint32_t num_text_cells(const hypothesis& one) const {
    return where_.num_prompt_cells + static_cast<std::uint32_t>(one.output.size());
  }
  std::uint32_t num_wanted(const hypothesis& one) const { // blocks
    return (num_text_cells(one) + where_.num_draft_cells + where_.block_size - 1) / where_.block_size;
  }
  bool has_room(const hypothesis& one) const {
    return one.table.size() * where_.block_size >= num_text_cells(one);
  }
  /// The first free block from this number on; the number of all blocks if there is none.
  std::uint32_t next_free(std::uint32_t number) const;
  std::uint32_t num_common(const hypothesis& a, const hypothesis& b) const;
  std::uint32_t num_read(const hypothesis& of, const hypothesis& from) const;
  hypothesis* nearest(const hypothesis& to);
  void open(device::ops& ops, model::kv_storage& kv, std::span<const std::size_t> ready,
            const speculation::drafter_session& empty);
  void begin_lease(hypothesis& to, const speculation::drafter_session& empty);
  void go_on(hypothesis& from, bool is_last, hypothesis& to, std::vector<device::kv_copy>& copies);
  void add_block(hypothesis& to, std::uint32_t number);
  void close(hypothesis& one);

  layout where_;
  std::vector<hypothesis> now_;               ///< of this round
  std::vector<hypothesis> before_;            ///< of the last round, until the first of this round are open
  std::vector<std::size_t> pending_, called_; ///< in this round
  std::vector<std::uint32_t> num_owners_;     ///< for each block of the lease, tables that have it
  bool catching_up_ = false;
};

} // namespace paceline::rounds
