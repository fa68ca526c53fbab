#pragma once

#include "runtime/speculation/control/acceptance_model.hpp"
#include "runtime/speculation/control/node_choice.hpp"
#include "runtime/speculation/control/pass_cost.hpp"
#include "runtime/speculation/drafters/draft.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::speculation {

/// What the controller remembers of one request: drafts whose fate is not fully known, and how this request
/// differs from others. Dies with the request.
class draft_history {
 private:
  friend class draft_controller;
  struct proposal {
    std::uint32_t candidate = 0;
    std::uint32_t base_length = 0;
    token_tree tree;
    std::vector<node_place> places; ///< one a node
    std::int32_t at = token_tree::root;
    std::uint32_t num_right = 0; ///< levels below which `at` lies
  };
  std::vector<proposal> open_;     ///< oldest first
  std::vector<request_bias> bias_; ///< one a candidate
};

/// Chooses, per request and round, the drafter and the part of its draft that is worth verifying: the most
/// expected tokens per measured time, nothing at all being one of the choices. Every candidate drafts in
/// every round (in-line drafters cost microseconds) and all drafts, verified or not, are scored against the
/// tokens that came.
///
/// Non-anticipating: what is verified depends on earlier rounds, on the depth and rank of nodes, and on their
/// drafters' signals, which under rule `rejection` are ignored where tokens were sampled (`draft::probs`).
///
/// Not thread-safe: one a target stream.
class draft_controller {
 public:
  explicit draft_controller(std::uint32_t num_candidates) : tables_(num_candidates) {}

  /// A request's part of a round.
  struct lane {
    draft_history* history = nullptr;
    std::vector<draft> proposals; ///< one a candidate; consumed by `choose`
    std::uint32_t candidate = 0;  ///< whose draft was chosen
    draft chosen;                 ///< closed under ancestors; empty: plain decoding
  };

  /// Scores the drafts of earlier rounds. `tokens` = committed ones.
  void learn(draft_history& history, std::span<const token_id> tokens);
  /// Fills `chosen` of every lane. `num_rows` = rows of the pass without draft tokens.
  void choose(std::span<lane> lanes, std::uint32_t num_rows);
  /// A round over `num_rows` rows, none of them of a prompt, took so long.
  void observe(std::uint32_t num_rows, double nanoseconds) noexcept { cost_.observe(num_rows, nanoseconds); }
  const pass_cost& cost() const noexcept { return cost_; }

 private:
  std::vector<double> reach_of(const draft& proposal, std::span<const node_place> places,
                               std::uint32_t candidate, const request_bias& bias) const;
  /// True while tokens to come can tell more.
  bool score(draft_history& history, draft_history::proposal& open, std::span<const token_id> tokens);

  std::vector<acceptance_table> tables_;
  pass_cost cost_;
  std::uint64_t num_choices_ = 0;
};

} // namespace paceline::speculation
