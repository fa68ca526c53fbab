#pragma once

#include "runtime/speculation/control/acceptance_model.hpp"
#include "runtime/speculation/control/node_choice.hpp"
#include "runtime/speculation/control/pass_cost.hpp"
#include "runtime/speculation/drafters/draft.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::speculation {

/// What the controller remembers of one request: drafts that are not fully scored yet, and how this request
/// differs from others. Destroyed with the request.
class draft_history {
 private:
  friend class draft_controller;
  struct proposal {
    std::uint32_t candidate = 0;
    std::uint32_t base_length = 0;
    token_tree tree;
    std::vector<node_place> places; ///< one for each node; for drawn tokens one for each level of the plan
    bool drawn = false;
    std::int32_t at = token_tree::root;
    std::uint32_t num_right = 0; ///< number of levels down to `at`
  };
  std::vector<proposal> open_;     ///< oldest first
  std::vector<request_bias> bias_; ///< one a candidate
  bool draws_ = false;             ///< its drafts are drawn
  double rate_ =
      0; ///< recent expected tokens per pass over one row from drafts that are made anyway; 0: unknown
};

/// Chooses, per request and round, the drafter and the part of its draft that is worth verifying: the most
/// expected tokens per measured time, nothing at all being one of the choices. In-line candidates draft in
/// every round (they cost microseconds); those that have to be asked a round ahead (workers) are asked where
/// their tokens are worth their time. All drafts, verified or not, are scored against the tokens that came.
///
/// Non-anticipating: the choice depends on earlier rounds, on the depth and rank of nodes, and on their
/// drafters' signals. For a draft whose tokens were drawn (`draft::probs`) it uses only the plan: whole
/// levels are kept, and a planned level that the drafter did not reach counts as wrong.
///
/// Not thread-safe: one object for each target stream.
class draft_controller {
 public:
  /// Candidates from number `first_asked` on have to be asked.
  draft_controller(std::uint32_t num_candidates, std::uint32_t first_asked)
      : tables_(num_candidates), tables_of_plans_(num_candidates), first_asked_(first_asked),
        steps_(num_candidates), next_look_(first_asked) {}
  explicit draft_controller(std::uint32_t num_candidates)
      : draft_controller(num_candidates, num_candidates) {}

  /// One request's part of a round.
  struct request_choice {
    draft_history* history = nullptr;
    std::vector<draft> proposals; ///< one a candidate; consumed by `choose`
    std::uint32_t candidate = 0;  ///< whose draft was chosen
    draft chosen;                 ///< closed under ancestors; empty: plain decoding
  };

  /// Scores the drafts of earlier rounds. `tokens` are the committed ones.
  void learn(draft_history& history, std::span<const token_id> tokens);
  /// Sets `chosen` of every request. `load` is the pass without their draft tokens, with the rows of other
  /// requests.
  void choose(std::span<request_choice> requests, const pass_load& load);
  /// A round over `num_rows` rows, none of them of a prompt, took so long.
  void observe(std::uint32_t num_rows, double nanoseconds) noexcept;
  /// A candidate that was asked took `nanoseconds` for each level of its draft after the verdict.
  void observe_drafting(std::uint32_t candidate, double nanoseconds) noexcept;
  const pass_cost& cost() const noexcept { return cost_; }

  /// Which candidate to ask in the next rounds, and for how many tokens.
  struct advice {
    std::uint32_t candidate = 0;
    std::vector<std::uint32_t> lengths; ///< one for each request
  };
  /// Advice for a batch of these requests and `num_others` further rows, with at most `max_length` tokens
  /// each. The requests are considered together, because a drafter computes one step for each level for all
  /// of them.
  advice advise(std::span<const draft_history* const> requests, std::uint32_t num_others,
                std::uint32_t max_length);

 private:
  std::vector<double> chain_reach(std::uint32_t candidate, const draft_history& request,
                                  std::uint32_t length) const;
  double cost_of_probes(const draft& proposal, std::uint32_t num_rows) const;
  bool pays_for_probes(const std::vector<double>& reach, pass_load load, double probes) const;
  node_choice choose_together(std::span<const std::vector<double>> reach, const pass_load& load);
  advice look(std::size_t num_requests, double row);
  std::vector<double> reach_of(const draft& proposal, const draft_history::proposal& known,
                               const request_bias& bias) const;
  std::vector<double> reach_by_level(const draft_plan& plan, std::uint32_t candidate,
                                     const request_bias& bias) const;
  /// True while later tokens can contribute to the score.
  bool score(draft_history& history, draft_history::proposal& open, std::span<const token_id> tokens);
  /// The same for the next token, `came`.
  bool score_next(draft_history& history, draft_history::proposal& open, token_id came);
  bool score_level(draft_history& history, draft_history::proposal& open, token_id came);

  struct drafting_step {
    double nanoseconds = 0;
    bool seen = false;
  };

  std::vector<acceptance_table> tables_;          ///< by candidate
  std::vector<acceptance_table> tables_of_plans_; ///< the same for drawn drafts, by level
  std::uint32_t first_asked_;
  std::vector<drafting_step> steps_; ///< of each candidate that is asked
  pass_cost cost_;
  std::uint32_t next_look_;
  std::uint64_t num_looks_ = 0;
  std::uint32_t look_rounds_ = 0; ///< rounds left in which candidate `next_look_` is asked for exploration
  double since_look_ = 0;         ///< nanoseconds of passes
  std::uint64_t num_choices_ = 0;
  std::uint64_t next_curve_look_ = 4; ///< in choices
};

} // namespace paceline::speculation
