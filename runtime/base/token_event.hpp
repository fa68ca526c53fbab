#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/request.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace paceline {

/// Raw log-softmax values at one position.
struct token_logprob {
  token_id token;                              ///< the committed token
  float logprob = 0;                           ///< natural logarithm
  std::vector<std::pair<token_id, float>> top; ///< best first; as many as the request asked for
};

/// What drafter `auto` weighed in the rounds of one request.
struct draft_account {
  struct candidate {
    std::string drafter;
    std::uint32_t num_proposals = 0; ///< rounds in which it proposed a draft
    std::uint32_t num_chosen = 0;    ///< rounds that verified its draft
    /// Sums of two ratios over its proposals: of expected tokens, and of expected time. Each ratio is the
    /// value for the pass that verifies the best part of the draft (at least one token), divided by the value
    /// for the pass without a draft.
    double tokens = 0, time = 0;
  };
  std::vector<candidate> candidates;      ///< all candidates of `auto`, in the order of the model's drafters
  std::uint32_t num_rounds = 0;           ///< rounds that had room for a draft
  std::uint32_t num_without_proposal = 0; ///< those of `num_rounds` in which no candidate proposed a draft
  /// those of `num_rounds` that left out a proposed draft to measure the time of a pass without one
  std::uint32_t num_plain_to_measure = 0;
};

/// Effect of speculation on one request so far (cumulative).
struct speculation_stats {
  std::uint32_t num_rounds = 0; ///< rounds that verified at least one draft token
  std::uint32_t num_draft_tokens = 0;
  std::uint32_t num_accepted_tokens = 0;
  std::vector<std::uint32_t> acceptance_histogram = {}; ///< [j] = rounds that accepted exactly j draft tokens
  paceline::guarantee guarantee =
      paceline::guarantee::tokens;   ///< from the request's rule and its target's device
  std::uint32_t num_full_rounds = 0; ///< those of `num_rounds` whose whole draft was accepted
  std::uint32_t num_open_rounds = 0; ///< rounds that had room for a draft
  std::string drafter = {};          ///< the request's drafter: a name, "auto", or empty for none
  std::shared_ptr<const draft_account> weighed = {}; ///< set if `drafter` is "auto"
};

/// Times of one request so far.
struct request_timings {
  std::chrono::nanoseconds queued{};   ///< admission to first prefill
  std::chrono::nanoseconds prefill{};  ///< first prefill to first token
  std::chrono::nanoseconds decode{};   ///< first token to last token
  std::uint32_t num_cached_tokens = 0; ///< prompt tokens found in the prefix cache
};

/// What drafter `auto` weighed before a round, for one request.
struct draft_choice {
  struct option {
    std::string drafter;
    std::uint32_t num_tokens = 0; ///< draft tokens that were worth verifying; 0: none
    float expected_tokens = 1;    ///< tokens that the round would commit
    float cost = 1;               ///< time of the round, in units of a pass over one row
  };
  std::vector<option> options; ///< drafters that proposed something
  /// the round ran without a draft to measure the time of such a pass, although a draft promised more
  bool plain_to_measure = false;
};

/// When work for a request began and ended, counted from the request's submission to the engine.
struct work_span {
  std::chrono::microseconds begin{}, end{};
  friend bool operator==(const work_span&, const work_span&) = default;
};

/// One round of one request, reported when `generation_request::trace` is set.
struct round_trace {
  round_id round;
  std::uint32_t base_length = 0;           ///< committed tokens before the round, prompt included
  std::string drafter;                     ///< the drafter that made the draft
  std::vector<token_id> draft_tokens;      ///< proposed, in node order
  std::vector<std::int32_t> parents;       ///< parent node of each draft token; -1 = the last committed token
  std::vector<std::int32_t> accepted;      ///< nodes kept, root first
  bool bonus = false;                      ///< the last committed token is a bonus, not a recovered one
  std::optional<draft_choice> choice = {}; ///< set if the request's drafter is "auto"
  work_span verified = {};                 ///< from the start of the pass to the decision for the request
  /// When the draft was made, as measured by its drafter. For a draft made in advance this overlaps the
  /// previous round.
  std::optional<work_span> drafted = {};
  /// Committed by the round: the accepted tokens and the recovered or bonus token.
  std::vector<token_id> tokens = {};
};

/// One result of a beam search.
struct beam_hypothesis {
  std::vector<token_id> tokens;
  std::string text;
  finish_reason finish = finish_reason::none; ///< stop or length
  double logprob = 0;                         ///< sum over its tokens
  double score = 0;                           ///< logprob / number of tokens ^ length_penalty
};

/// The tokens that one round committed for one request, or the request's end. Indices are contiguous over a
/// request's events.
struct token_event {
  request_id request;
  std::uint32_t first_index = 0;       ///< output index of tokens[0]
  std::vector<token_id> tokens;        ///< may be empty in the final event
  std::string text;                    ///< whole characters only; may lag behind `tokens`
  std::vector<token_logprob> logprobs; ///< one for each token if requested
  std::vector<token_logprob>
      prompt_logprobs; ///< in the first event only; one for each prompt token from the second on
  std::optional<round_trace> trace;
  std::vector<beam_hypothesis>
      hypotheses; ///< for a beam search, in the final event, best first; `tokens` are those of the first
  finish_reason finish = finish_reason::none;
  /// With finish_reason::stop: the stop string that ended the output; empty: a token ended it.
  std::string stop_string;
  /// End of the round that committed `tokens`; unset in final events that did not come from a round.
  time_point committed_at;
  std::optional<error> failure;                 ///< set with finish_reason::error
  std::optional<speculation_stats> speculation; ///< in the final event; see `stats_in_events`
  std::optional<request_timings> timings;       ///< like `speculation`
};

} // namespace paceline
