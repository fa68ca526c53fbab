#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/base/request.hpp"
#include "runtime/rounds/text_output.hpp"
#include "runtime/sampling/pipeline.hpp"
#include "runtime/speculation/trees/token_tree.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace paceline::rounds {

/// The parts of a request that a beam search uses: the pipeline that turns a row of logits into scores, and
/// the text output that finds stop strings.
struct beam_context {
  const sampling::pipeline* sampling = nullptr;
  const sampling::token_counts* counts = nullptr; ///< of the prompt
  const text_output* text = nullptr;              ///< in its initial state; null: there are no stop strings
};

/// A finished hypothesis.
struct beam_result {
  std::vector<token_id> tokens;
  double logprob = 0; ///< sum over `tokens`
  double score = 0;
};

/// The beam search of one request (docs/beam_search.md): its hypotheses, their likeliest next tokens, and the
/// cells of their tokens.
///
/// Output tokens form a trie below the prompt's last token, so hypotheses share common beginnings. The cell
/// of a node may be in any slot behind the prompt's, because rows name the slots of their ancestors. So
/// branching copies nothing, and cells of dropped hypotheses are reused, all within one lease.
///
/// Draft tokens are nodes, too. A step needs the rows of all hypotheses. If it leads to draft tokens, their
/// rows were computed in the same pass, and the next step follows at once (Leviathan et al. 2023, appendix
/// A.4). Each step uses the target's own rows, so drafts do not change it.
///
/// Invariants (`check_invariants`): a parent precedes its children; siblings have different tokens; a slot
/// belongs to at most one node, and the prompt's slots to none; between rounds every node is on the path of a
/// hypothesis; hypotheses are distinct nodes of one level.
class beam_search {
 public:
  static constexpr std::uint32_t root = 0; ///< node of the prompt's last token
  /// Largest number of rows of one request in a round. After a preemption the tokens of all hypotheses are
  /// computed again, over several rounds.
  static constexpr std::uint32_t max_rows = 128;
  static constexpr std::uint32_t max_draft_nodes = speculation::token_tree::max_nodes; ///< of all hypotheses

  /// `max_output`: largest number of tokens in a hypothesis, at least 1.
  beam_search(const beam_params& params, const stop_params& stop, std::uint32_t prompt_length,
              std::uint32_t max_output);

  // ---- before the pass

  /// Forgets all cells, because they were released.
  void forget_cells();
  /// True if the prompt's last token was computed and its successors are known.
  bool prompt_is_computed() const noexcept { return nodes_[root].slot && nodes_[root].next; }
  /// True if all cells except those of the newest tokens are computed, as a draft needs.
  bool may_draft() const noexcept;
  /// Number of levels of a draft that can still become output.
  std::uint32_t max_draft_levels() const noexcept;

  std::uint32_t num_hypotheses() const noexcept { return static_cast<std::uint32_t>(living_.size()); }
  /// Output tokens of hypothesis `i`, best first.
  std::vector<token_id> output_of(std::uint32_t i) const { return path_tokens(living_[i].node); }
  /// Slots of the tokens of hypothesis `i`, from the prompt's last token on, without the newest token, whose
  /// row may not be computed yet. Requires `may_draft`.
  std::vector<kv_slot> slots_of(std::uint32_t i) const;
  /// Adds a draft below hypothesis `i`.
  void add_draft(std::uint32_t i, const speculation::token_tree& draft);

  /// One row that the pass shall compute.
  struct row {
    std::uint32_t node = 0;
    bool decides = false; ///< its logits are wanted
  };
  /// Assigns cells to the tokens to be computed, up to `num_slots` (the lease's, prompt included) and
  /// `most_rows`. Draft tokens without a cell are dropped. The root, which belongs to the prompt, has no row.
  std::span<const row> plan_rows(std::uint32_t num_slots, std::uint32_t most_rows = max_rows);
  std::span<const row> planned_rows() const noexcept { return rows_; }
  token_id token_of(std::uint32_t node) const { return nodes_[node].token; }
  std::uint32_t parent_of(std::uint32_t node) const { return nodes_[node].parent; }
  token_position position_of(std::uint32_t node) const {
    return token_position{prompt_length_ - 1 + nodes_[node].level};
  }
  kv_slot slot_of(std::uint32_t node) const { return *nodes_[node].slot; }
  /// The recurrent state behind a node, of a model that has one, if it is kept; never the root's.
  std::optional<state_slot> state_of(std::uint32_t node) const { return nodes_[node].state; }
  void set_state(std::uint32_t node, state_slot slot) { nodes_[node].state = slot; }
  /// The states that later rows continue: those of hypotheses, and of nodes with a child without a cell. The
  /// others are forgotten.
  std::vector<state_slot> needed_states();
  /// Appends the slots of the output tokens up to `node`, which is included.
  void append_path(std::uint32_t node, std::vector<kv_slot>& out) const;

  // ---- after the pass

  /// Raw logits of a node whose row the pass computed with logits. Scratch memory, requested at most once.
  using node_row = std::function<std::span<float>(std::uint32_t node)>;
  struct progress {
    std::uint32_t num_draft = 0;    ///< draft tokens whose rows were computed
    std::uint32_t num_accepted = 0; ///< draft tokens that became tokens of hypotheses
    std::uint32_t num_steps = 0;
  };
  /// The root's row was computed.
  void set_prompt_computed() noexcept {
    nodes_[root].slot = kv_slot{prompt_length_ - 1}, root_decides_ = true;
  }
  /// Makes as many steps as the pass's rows allow. Throws std::runtime_error if no hypothesis has a successor
  /// and none has ended, which means that the model failed.
  progress advance(const beam_context& context, const node_row& rows);

  bool finished() const noexcept { return finished_; }
  /// The best hypotheses, best first; only once finished.
  std::vector<beam_result> best() const;
  /// Number of cells that the next round needs without drafts, prompt included.
  std::uint32_t num_cells() const noexcept {
    return prompt_length_ + static_cast<std::uint32_t>(nodes_.size()) - 1;
  }
  /// Empty if all invariants hold, else the violated one.
  std::string check_invariants() const;

 private:
  struct successor {
    token_id token;
    double logprob = 0;
  };
  struct node {
    token_id token;
    std::uint32_t parent = root;
    std::uint32_t level = 0;          ///< number of output tokens up to it, itself included; 0: the root
    std::optional<kv_slot> slot = {}; ///< of its cell, if it has one
    std::optional<state_slot> state = {};
    std::optional<std::vector<successor>> next = {}; ///< the likeliest next tokens, best first, once known
    bool draft = false;
    bool has_row = false; ///< it has a row of logits in this round's pass
  };
  struct hypothesis {
    std::uint32_t node = root;
    double logprob = 0;
    std::shared_ptr<const text_output> text = {}; ///< fed with its tokens; only if there are stop strings
  };
  struct candidate {
    double logprob = 0;
    std::uint32_t parent = 0; ///< hypothesis
    token_id token;
  };
  bool knows_successors(std::uint32_t node) const noexcept {
    return nodes_[node].next || nodes_[node].has_row || (node == root && root_decides_);
  }
  void learn_successors(std::uint32_t node, const beam_context& context, const node_row& rows);
  std::vector<candidate> rank_candidates() const;
  void step(const beam_context& context, progress& done);
  /// True if `token` ends hypothesis `parent`. Otherwise sets `text` to the hypothesis's text with the token.
  bool ends(const hypothesis& parent, token_id token, const beam_context& context,
            std::shared_ptr<const text_output>& text) const;
  std::uint32_t child(std::uint32_t parent, token_id token, progress& done);
  std::vector<token_id> path_tokens(std::uint32_t node) const;
  bool is_ancestor(std::uint32_t node, std::uint32_t descendant) const noexcept;
  double score_of(double logprob, std::size_t length) const;
  void forget_other_nodes();

  beam_params params_;
  stop_params stop_;
  std::uint32_t prompt_length_;
  std::uint32_t max_output_;
  std::vector<node> nodes_; ///< [root] first
  std::vector<hypothesis> living_;
  std::vector<beam_result> ended_; ///< in the order in which they ended
  std::vector<row> rows_;          ///< of this round
  bool root_decides_ = false;
  bool finished_ = false;
};

} // namespace paceline::rounds
