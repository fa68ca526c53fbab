#pragma once

#include "runtime/base/token_event.hpp"
#include "runtime/speculation/control/acceptance_model.hpp"
#include "runtime/speculation/control/node_choice.hpp"
#include "runtime/speculation/control/pass_cost.hpp"
#include "runtime/speculation/drafters/draft.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace paceline::speculation {

/// What the controller remembers of one request: drafts that are not fully compared with the committed tokens
/// yet, and how this request differs from others. Destroyed with the request.
class draft_history {
 public:
  draft_history() = default;
  /// `weighs_probs`: the request's rule compares probabilities, so its drafters may sample their tokens.
  explicit draft_history(bool weighs_probs) noexcept : weighs_probs_(weighs_probs) {}

  /// Statistics of the choices for the request so far; the names of the candidates are left empty.
  const draft_account& account() const noexcept { return account_; }
  /// The draft that was chosen is not verified after all.
  void forget_verified() noexcept {
    for (auto& open : open_) open.num_verified = std::min(open.num_verified, open.num_right);
  }

 private:
  friend class draft_controller;
  struct proposal {
    std::uint32_t candidate = 0;
    std::uint32_t base_length = 0;
    token_tree tree;
    std::vector<node_place> places; ///< one for each node; for drawn tokens one for each level of the plan
    bool drawn = false;
    /// For drawn tokens, the number of levels that were verified. The others are not scored: without
    /// verification, the target's token is drawn independently of the draft's.
    std::uint32_t num_verified = 0;
    std::int32_t at = token_tree::root; ///< deepest node that the committed tokens reached so far
    std::uint32_t num_right = 0;        ///< number of levels down to `at`
  };
  /// The latest calls of one in-line candidate for this request.
  struct call_record {
    bool asked = false;            ///< it is called in this round
    std::uint32_t num_vain = 0;    ///< useless calls in a row up to now (`note_calls`)
    std::uint32_t num_to_skip = 0; ///< coming rounds in which it is not called
  };
  std::vector<proposal> open_;     ///< oldest first
  std::vector<request_bias> bias_; ///< [candidate]
  std::vector<call_record> calls_; ///< [candidate]
  bool weighs_probs_ = false;
  /// A worker that is tried with this request, and the number of rounds for which it will still be asked.
  std::uint32_t tried_ = 0, num_trials_ = 0;
  /// Moving average of the speed of the best in-line draft relative to plain decoding, as estimated before
  /// each round; 0: not known.
  double rate_ = 0;
  draft_account account_;
};

/// Implements drafter `auto` (docs/auto.md): chooses, for each request and round, one of the model's drafters
/// (the candidates) and the part of its draft that is worth verifying. It maximises expected tokens per
/// measured time; verifying no draft is one of the choices.
///
/// An in-line candidate drafts in every round if its calls take at most a thousandth of a pass. Any other
/// in-line candidate is skipped after five useless calls in a row: for one round, and for twice as many after
/// each further useless call, up to 64. Workers have to be asked a round ahead. They are asked if their
/// tokens are worth their time.
///
/// All drafts, verified or not, are later compared with the committed tokens. An exception is a draft whose
/// tokens were drawn (`draft::probs`): only its verified levels are compared, because the others would be
/// compared with a token that was drawn independently. To measure deeper levels, too, such a draft is
/// sometimes verified one level deeper than pays.
///
/// The choice does not depend on which tokens a draft has. It uses measured times, earlier rounds, and the
/// depth, rank and signal of each node. For a draft whose tokens were drawn (`draft::probs`) it uses only the
/// plan: whole levels are kept, and a planned level that the drafter did not reach counts as wrong.
///
/// A draft that consists of probes alone (trained rows, or the window of `lookahead`) adds no draft token in
/// its round, but makes a draft possible in the next. It is chosen if these two rounds together promise more
/// tokens per time than the best draft, and than rounds without drafts. How good the drafts of such a
/// candidate are is known only after a round with its probes. So the probes are also chosen, for one request
/// of a round, if they were not chosen in the last 256 choices and if they take at most a hundredth of the
/// time since they were last chosen.
///
/// Not thread-safe: one object for each target stream.
class draft_controller {
 public:
  /// One prior for each candidate. Candidates from number `first_asked` on are workers, which have to be
  /// asked a round ahead.
  draft_controller(std::span<const acceptance_table::prior> priors, std::uint32_t first_asked)
      : tables_(priors.begin(), priors.end()), tables_of_plans_(priors.size()), first_asked_(first_asked),
        draws_(priors.size()), probes_(priors.size()), steps_(priors.size()), num_to_verify_(priors.size()),
        since_level_(priors.size(), std::numeric_limits<double>::infinity()), proposing_(priors.size()),
        next_look_(first_asked), last_best_(first_asked) {}
  /// All candidates are in-line, and none has a prior.
  explicit draft_controller(std::uint32_t num_candidates)
      : draft_controller(std::vector<acceptance_table::prior>(num_candidates), num_candidates) {}

  /// The estimate for the best part of one candidate's draft, in a pass that also has the round's other rows.
  struct option {
    std::uint32_t candidate = 0;
    std::uint32_t num_nodes = 0; ///< nodes worth verifying; 0: none
    double tokens = 1;           ///< expected tokens of the round for this request
    /// Time of the round, in passes over one row, without the rows that are computed in any case
    /// (`node_choice::cost`).
    double cost = 1;
    /// Tokens per time of the round if all requests with drafts had drafts like this one; 0 if no other
    /// request has a draft.
    double alike = 0;
  };

  /// One request's part of a round.
  struct request_choice {
    draft_history* history = nullptr;
    std::vector<draft> proposals; ///< [candidate]; consumed by `choose`
    std::uint32_t candidate = 0;  ///< candidate whose draft was chosen
    draft chosen;                 ///< closed under ancestors; no rows: plain decoding
    std::vector<option> options;  ///< one for each proposal that is not empty
    /// A draft promised more, but none was chosen, so that the time of a round without drafts is measured.
    bool plain_to_measure = false;
  };

  /// Compares the drafts of earlier rounds with `tokens`, the committed tokens.
  void learn(draft_history& history, std::span<const token_id> tokens);
  /// Sets `chosen` of every request. `load` is the whole pass without the draft tokens of these requests:
  /// their other rows, and all rows of other requests.
  void choose(std::span<request_choice> requests, const pass_load& load);
  /// Starts with these times of passes, measured when the model was loaded.
  void calibrate(std::span<const pass_time> measured) noexcept { cost_.calibrate(measured); }
  /// True if in-line candidate `candidate` shall propose for this request in the round that begins now.
  /// `num_requests`: number of requests in that round for which `choose` will choose. Must be called once in
  /// each round, because it counts the rounds in which a candidate is skipped.
  bool begin_call(draft_history& history, std::uint32_t candidate, std::uint32_t num_requests) const;
  /// A call of an in-line candidate for `num_requests` requests took `nanoseconds`.
  void observe_proposing(std::uint32_t candidate, std::uint32_t num_requests, double nanoseconds) noexcept;
  /// A pass over `num_rows` rows, none of them a prompt row, took `nanoseconds`.
  void observe(std::uint32_t num_rows, double nanoseconds) noexcept;
  /// A worker took `nanoseconds` for each level of its draft. This time must not include drafts made in
  /// advance: only time after the verdict counts. `catching_up`: the worker also read tokens that it had
  /// missed. Such a time is used only if a whole trial of the worker gives no other.
  void observe_drafting(std::uint32_t candidate, double nanoseconds, bool catching_up = false) noexcept;
  const pass_cost& cost() const noexcept { return cost_; }

  /// Which worker to ask for a request in the next rounds, and for how many tokens.
  struct advice {
    std::uint32_t candidate = 0; ///< no meaning if `length` is 0
    std::uint32_t length = 0;    ///< 0: ask no worker
  };
  /// Advice for each of `requests`, which share the next passes with `num_others` further rows; at most
  /// `max_length` draft tokens for each. Empty: ask no worker. The requests are considered together, because
  /// a worker computes each level of all drafts in one step. The candidates in `resting` must not be asked.
  std::vector<advice> advise(std::span<draft_history* const> requests, std::uint32_t num_others,
                             std::uint32_t max_length, std::span<const std::uint32_t> resting = {});

 private:
  /// The share by which drafting must be expected to be faster than not drafting, because estimates have
  /// errors.
  static constexpr double margin = 0.015;
  /// The share of the time that may be spent on each kind of exploring: on tokens and probes that do not pay
  /// by the current estimates. Exploring keeps the estimates current, because texts and times change.
  static constexpr double look_share = 0.01;

  std::vector<double> chain_reach(std::uint32_t candidate, const draft_history& request,
                                  std::uint32_t length) const;
  /// The best draft of a request.
  struct best_draft {
    double rate = 0;           ///< expected tokens per time; the unit of time is a pass over one row
    double rate_of_alike = 0;  ///< the same if all requests with drafts had drafts like this one
    std::vector<double> reach; ///< [node]
    double probes = 0;         ///< cost of its probes, in passes over one row
    bool only_probes = false;
  };

  double cost_of_probes(const draft& proposal, std::uint32_t num_rows) const;
  double rate_of_probes(const draft& proposal, const draft_history& history, std::uint32_t candidate,
                        const pass_load& load) const;
  bool pays_for_probes(const std::vector<double>& reach, pass_load load, double probes) const;
  bool wants_plain_round(const node_choice& best, const pass_load& load) const;
  void weigh(request_choice& one, const pass_load& load, std::uint32_t num_requests, std::uint32_t num_alike,
             best_draft& best);
  void weigh_probes(request_choice& one, std::uint32_t candidate, const pass_load& load, best_draft& best);
  std::optional<std::uint32_t> draft_to_try(const request_choice& one, double lost_tokens,
                                            std::uint32_t num_rows) const;
  void take(request_choice& one, std::vector<bool> keep, std::uint32_t num_more_levels) const;
  void note_choice(request_choice& one, const best_draft& best, const pass_load& load);
  static void remember(draft_history& history, draft_history::proposal known);
  double share_of_pass(std::uint32_t candidate, std::uint32_t num_requests) const;
  void note_calls(request_choice& one, const pass_load& load) const;
  void note_proposal(draft_account::candidate& of, const node_choice& nothing, const node_choice& alone,
                     double probes, const std::vector<double>& reach, const pass_load& load) const;
  /// The best worker for a batch, and the lengths of the drafts to ask it for.
  struct batch_advice {
    std::uint32_t candidate = 0;
    std::vector<std::uint32_t> lengths; ///< [request]; empty: none is worth its time
  };
  batch_advice best_worker(std::span<draft_history* const> requests, std::uint32_t num_others,
                           std::uint32_t max_length, std::span<const std::uint32_t> resting);
  double price_of_trial(std::uint32_t candidate, std::span<draft_history* const> requests) const;
  bool pass_turn(std::optional<std::uint32_t> best, std::span<const std::uint32_t> resting);
  std::optional<std::uint32_t> worker_to_look_at(std::span<draft_history* const> requests,
                                                 std::span<const std::uint32_t> resting);
  void try_another(std::span<draft_history* const> requests, std::uint32_t best,
                   std::span<const std::uint32_t> resting, std::vector<advice>& out);
  void note_trial(std::uint32_t candidate, std::span<draft_history* const> requests);
  std::uint32_t candidate_after(std::uint32_t candidate) const noexcept {
    return candidate + 1 < tables_.size() ? candidate + 1 : first_asked_;
  }
  std::vector<double> reach_of(const draft& proposal, const draft_history::proposal& known,
                               const request_bias& bias) const;
  std::vector<double> reach_by_level(const draft_plan& plan, std::uint32_t candidate,
                                     const request_bias& bias) const;
  std::vector<double> reach_of_levels(const acceptance_table& table, const request_bias& bias,
                                      std::uint32_t num_levels) const;
  /// Compares a draft with `tokens` and counts its right and wrong tokens. True while it has tokens that are
  /// not compared yet.
  bool score(draft_history& history, draft_history::proposal& open, std::span<const token_id> tokens);
  /// The same for the next committed token, `came`; `score_level` for drafts whose tokens were drawn.
  bool score_next(draft_history& history, draft_history::proposal& open, token_id came);
  bool score_level(draft_history& history, draft_history::proposal& open, token_id came);

  /// A moving average of a drafter's times.
  struct drafting_time {
    static constexpr double memory = 0.8; ///< weight of earlier times
    double nanoseconds = 0;
    bool seen = false;
    bool is_bound = false;        ///< `nanoseconds` is only an upper bound
    double least_catching_up = 0; ///< least time with other work in it; 0: none
    void observe(double now) noexcept {
      nanoseconds = seen && !is_bound ? memory * nanoseconds + (1 - memory) * now : now;
      seen = true, is_bound = false;
    }
    /// Ends a look (a few rounds in which a worker is asked only to measure it). If every time in it included
    /// other work, the least of these times is used until there is a better one.
    void end_look() noexcept {
      const bool is_better = !seen || (is_bound && least_catching_up < nanoseconds);
      if (least_catching_up == 0 || !is_better) return;
      nanoseconds = least_catching_up;
      seen = is_bound = true;
    }
  };
  /// When a candidate's probes were last chosen without a draft.
  struct last_probes {
    std::uint64_t num_choices = 0; ///< of requests since then
    double nanoseconds = 0;        ///< of passes since then
  };

  std::vector<acceptance_table> tables_;          ///< by candidate
  std::vector<acceptance_table> tables_of_plans_; ///< by candidate; for drawn drafts, by level
  std::uint32_t first_asked_;                     ///< number of the first worker
  std::vector<bool> draws_; ///< [candidate]: it draws its tokens for a request that weighs probabilities
  std::vector<last_probes> probes_;  ///< [candidate]
  bool probes_were_forced_ = false;  ///< in this round
  std::vector<drafting_time> steps_; ///< [candidate], for workers: time of one level of a draft
  /// [candidate], for workers: number of coming rounds in which its drawn drafts are verified one level
  /// deeper than pays.
  std::vector<std::uint32_t> num_to_verify_;
  /// [candidate]: nanoseconds of passes since a draft was verified one level deeper than pays.
  std::vector<double> since_level_;
  std::vector<drafting_time> proposing_; ///< [candidate], for in-line ones: time of a call for one request
  pass_cost cost_;
  // A look: a worker is asked for a few rounds only to measure its acceptance and its time
  // (`worker_to_look_at`).
  std::uint32_t next_look_; ///< worker of the current or next look
  std::uint64_t num_looks_ = 0;
  std::uint32_t look_rounds_ = 0; ///< rounds left of the current look
  double since_look_ = 0;         ///< nanoseconds of passes since the last look
  double since_trial_ = 0;        ///< nanoseconds of passes since a worker other than the best was tried
  std::uint32_t last_best_ = 0;   ///< the worker that was last found to be the best
  std::uint64_t since_plain_ = 0; ///< choices since the last one for plain decoding
};

} // namespace paceline::speculation
