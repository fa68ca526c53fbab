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

/// The cells of a drafter for the hypotheses of one beam search, all in the request's lease in the drafter's
/// pool. Each hypothesis has a session and a block table. If two hypotheses begin with the same text, their
/// tables share the full blocks of this text, and its cells after these blocks are copied if necessary. So a
/// common text is read once, however many hypotheses have it. If reading a text takes several rounds, each
/// round continues where the previous one stopped.
///
/// For drafters whose cells depend on no tokens after them (`drafter_traits::text_begin`).
///
/// Invariants: a block in several tables is full of cells that their texts have in common, so nobody writes
/// to it. The lease may begin with blocks of the prefix cache. These are in the tables of all hypotheses
/// whose sessions have read the prompt.
///
/// Threads: used by programs of the worker's stream.
class hypothesis_cells {
 public:
  struct layout {
    std::span<const block_id> lease; ///< begins with the blocks of the previous round's lease
    std::uint32_t block_size = 0;
    std::uint32_t num_prompt_cells = 0; ///< cells of the prompt, which all hypotheses have in common
    std::uint32_t num_draft_cells = 0;  ///< cells that a draft takes after the text
    /// If a hypothesis lacks at most this many tokens of a text that another one is reading, it reads them
    /// itself instead of waiting. The caller passes the number of tokens that a round can commit.
    std::uint32_t num_read_twice = 0;
  };

  /// Begins a round. outputs[i] has the output tokens of hypothesis i. `where.lease` must remain valid until
  /// the next call.
  void begin_round(std::vector<std::vector<token_id>> outputs, const layout& where);
  /// Opens further hypotheses and returns their numbers; empty: no others can be opened in this round. The
  /// caller drafts for them in one call of the drafter, and then calls this function again. A hypothesis
  /// waits for the next call, or for the next round, while another hypothesis is reading a text that both
  /// share. A hypothesis for which there are no blocks is left out. `empty`: a session that has read nothing;
  /// new sessions are clones of it.
  std::vector<std::size_t> open_next(device::ops& ops, model::kv_storage& kv,
                                     const speculation::drafter_session& empty);

  /// Session and block table of hypothesis `i`; null and empty if it is not open.
  speculation::drafter_session* session(std::size_t i) const { return now_[i].session.get(); }
  std::span<const block_id> blocks(std::size_t i) const { return now_[i].blocks; }
  /// True if the session of hypothesis `i` is new in this round and its table begins with the lease's first
  /// block. Only such a session takes over the cells of the prefix cache; a session that continues another
  /// one has them already.
  bool begins_lease(std::size_t i) const { return now_[i].begins_lease; }
  /// True if a hypothesis that was opened in this round has more to read than the last round's tokens.
  bool catching_up() const noexcept { return catching_up_; }

 private:
  struct hypothesis {
    std::vector<token_id> output;
    std::unique_ptr<speculation::drafter_session> session; ///< null: it is not open
    std::vector<std::uint32_t> table;                      ///< numbers of the lease's blocks
    std::vector<block_id> blocks;                          ///< the blocks with these numbers
    bool begins_lease = false;
    bool is_behind = false; ///< it has more to read than the last round's tokens
  };

  std::uint32_t num_text_cells(const hypothesis& one) const {
    return where_.num_prompt_cells + static_cast<std::uint32_t>(one.output.size());
  }
  /// Blocks for the text and a draft.
  std::uint32_t num_wanted(const hypothesis& one) const {
    return (num_text_cells(one) + where_.num_draft_cells + where_.block_size - 1) / where_.block_size;
  }
  bool has_room(const hypothesis& one) const {
    return one.table.size() * where_.block_size >= num_text_cells(one);
  }
  /// The first block from this number on that is in no table; the size of the lease if there is none.
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
  std::vector<hypothesis> now_;           ///< of this round
  std::vector<hypothesis> before_;        ///< of the last round, until the first of this round are open
  std::vector<std::size_t> pending_;      ///< of this round, not yet returned by open_next
  std::vector<std::size_t> called_;       ///< of this round, returned by open_next
  std::vector<std::uint32_t> num_owners_; ///< number of tables that have each block of the lease
  bool catching_up_ = false;
};

} // namespace paceline::rounds
