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
  double logprob = 0; ///< natural logarithm; sum over `tokens`
  double score = 0;   ///< logprob / number of tokens ^ length_penalty
};

/// The beam search of one request (docs/beam_search.md): its hypotheses, their likeliest next tokens, and the
/// cells of their tokens.
///
/// Output tokens form a trie below the prompt's last token, so hypotheses share common beginnings. A node's
/// cell may be in any slot after the prompt's slots, because each row lists the slots of its ancestors. So
/// branching copies nothing, and cells of dropped hypotheses are reused, all within one lease.
///
/// Draft tokens are nodes, too. A step extends all hypotheses by one token. It needs the row of each
/// hypothesis's newest token. If the newest tokens after the step are all draft tokens with a row in this
/// pass, the next step follows at once (Leviathan et al. 2023, appendix A.4). A step uses only rows of the
/// target, so drafts do not change its result.
///
/// Threads: verify programs of the target's stream change the search. Draft programs read it after the fence
/// of the previous round's verify program has passed.
///
/// Invariants (`check_invariants`): a parent precedes its children; siblings have different tokens; a slot
/// belongs to at most one node; no node except the root has a slot of the prompt; between rounds every node
/// is on the path of a hypothesis; hypotheses are distinct nodes of one level.
class beam_search {
 public:
  static constexpr std::uint32_t root = 0; ///< node of the prompt's last token
  /// Largest number of rows of one request in a round. After a preemption the tokens of all hypotheses are
  /// computed again, over several rounds.
  static constexpr std::uint32_t max_rows = 128;
  /// Largest number of draft nodes of all hypotheses together.
  static constexpr std::uint32_t max_draft_nodes = speculation::token_tree::max_nodes;

  /// `max_output`: largest number of tokens in a hypothesis, at least 1.
  beam_search(const beam_params& params, const stop_params& stop, std::uint32_t prompt_length,
              std::uint32_t max_output);

  // ---- before the pass

  /// Forgets all cells, because they were released.
  void forget_cells();
  /// True if the prompt's last token was computed and its successors are known.
  bool prompt_is_computed() const noexcept { return nodes_[root].slot && nodes_[root].next; }
  /// True if drafts can be added: the search has made a step and is not finished, and the cells of all tokens
  /// except each hypothesis's newest one are computed.
  bool may_draft() const noexcept;
  /// Largest number of draft levels that can still become output.
  std::uint32_t max_draft_levels() const noexcept;

  std::uint32_t num_hypotheses() const noexcept { return static_cast<std::uint32_t>(living_.size()); }
  /// Output tokens of hypothesis `i`, in text order. Hypothesis 0 is the best.
  std::vector<token_id> output_of(std::uint32_t i) const { return path_tokens(living_[i].node); }
  /// Slots of the prompt's last token and of hypothesis `i`'s output tokens except the newest one, whose row
  /// may not be computed yet. Requires `may_draft`.
  std::vector<kv_slot> slots_of(std::uint32_t i) const;
  /// Adds a draft below hypothesis `i`.
  void add_draft(std::uint32_t i, const speculation::token_tree& draft);

  /// One row that the pass shall compute.
  struct row {
    std::uint32_t node = 0;
    bool decides = false; ///< its logits are wanted
  };
  /// Plans at most `most_rows` rows: those of tokens without a cell, and those whose logits are still needed.
  /// Gives a cell to each of these tokens that has none, in a slot below `num_slots`. This number includes
  /// the prompt's slots. A draft token gets no row if no slot is left or its parent has no cell. The root is
  /// computed with the prompt and has no row here. The result is valid until the next `plan_rows` or
  /// `advance`.
  std::span<const row> plan_rows(std::uint32_t num_slots, std::uint32_t most_rows = max_rows);
  std::span<const row> planned_rows() const noexcept { return rows_; }
  token_id token_of(std::uint32_t node) const { return nodes_[node].token; }
  std::uint32_t parent_of(std::uint32_t node) const { return nodes_[node].parent; }
  token_position position_of(std::uint32_t node) const {
    return token_position{prompt_length_ - 1 + nodes_[node].level};
  }
  kv_slot slot_of(std::uint32_t node) const { return *nodes_[node].slot; }
  /// The slot with the recurrent state after this node. nullopt if the model has no such states, if this
  /// state is not kept, and for the root, whose state is `request_states::current`.
  std::optional<state_slot> state_of(std::uint32_t node) const { return nodes_[node].state; }
  void set_state(std::uint32_t node, state_slot slot) { nodes_[node].state = slot; }
  /// Returns the states from which later rows continue: those of the hypotheses' newest nodes, and those of
  /// nodes that have a child without a cell. Forgets all other states of nodes.
  std::vector<state_slot> needed_states();
  /// Appends the slots of the output tokens from the first one to `node`.
  void append_path(std::uint32_t node, std::vector<kv_slot>& out) const;

  // ---- after the pass

  /// Returns the raw logits, [vocab_size], of a node whose row the pass computed with logits. `advance` calls
  /// it at most once for each node, and overwrites the values.
  using node_row = std::function<std::span<float>(std::uint32_t node)>;
  struct progress {
    std::uint32_t num_draft = 0;    ///< draft tokens whose rows were computed
    std::uint32_t num_accepted = 0; ///< draft tokens that became tokens of hypotheses
    std::uint32_t num_steps = 0;
  };
  /// Records that this pass computed the row of the prompt's last token, with logits. Call it before
  /// `advance`.
  void set_prompt_computed() noexcept {
    nodes_[root].slot = kv_slot{prompt_length_ - 1}, root_decides_ = true;
  }
  /// Makes as many steps as the pass's rows allow. Throws std::runtime_error if a step finds no token for any
  /// hypothesis before any hypothesis has ended. Then no logit was finite, which means that the model failed.
  progress advance(const beam_context& context, const node_row& rows);

  bool finished() const noexcept { return finished_; }
  /// The best hypotheses, best first; only once finished.
  std::vector<beam_result> best() const;
  /// Number of cells that the next round needs without drafts, prompt included.
  std::uint32_t num_cells() const noexcept {
    return prompt_length_ + static_cast<std::uint32_t>(nodes_.size()) - 1;
  }
  /// Empty if all invariants hold, else a description of the violated one. Call it between rounds.
  std::string check_invariants() const;

 private:
  struct successor {
    token_id token;
    double logprob = 0;
  };
  struct node {
    token_id token;
    std::uint32_t parent = root;
    std::uint32_t level = 0;          ///< number of output tokens up to and including this one; 0: the root
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
    std::uint32_t parent = 0; ///< index of the hypothesis
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
