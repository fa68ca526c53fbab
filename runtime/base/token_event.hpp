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
  float logprob = 0;                           ///< natural logarithm, of the raw logits
  std::vector<std::pair<token_id, float>> top; ///< best first; as many as the request asked for
};

/// What drafter `auto` weighed in the rounds of one request.
struct draft_account {
  struct candidate {
    std::string drafter;
    std::uint32_t num_proposals = 0; ///< rounds in which it proposed a draft
    std::uint32_t num_chosen = 0;    ///< rounds that verified its draft
    /// Sums over its proposals, of the pass with the best part of the draft (at least one token of it)
    /// relative to the same pass without a draft: expected tokens, and expected time.
    double tokens = 0, time = 0;
  };
  std::vector<candidate> candidates;      ///< all, in their order
  std::uint32_t num_rounds = 0;           ///< that had room for a draft
  std::uint32_t num_without_proposal = 0; ///< of them, those for which no candidate proposed a draft
  std::uint32_t num_plain_to_measure = 0; ///< of them, those without a draft to measure such a pass
};

/// Effect of speculation on one request so far (cumulative).
struct speculation_stats {
  std::uint32_t num_rounds = 0; ///< rounds that verified at least one draft token
  std::uint32_t num_draft_tokens = 0;
  std::uint32_t num_accepted_tokens = 0;
  std::vector<std::uint32_t> acceptance_histogram = {}; ///< [j] = rounds that accepted exactly j draft tokens
  paceline::guarantee guarantee =
      paceline::guarantee::tokens;                   ///< from the request's rule and its target's device
  std::uint32_t num_full_rounds = 0;                 ///< rounds whose whole draft was accepted
  std::uint32_t num_open_rounds = 0;                 ///< rounds that had room for a draft
  std::string drafter = {};                          ///< of the request: a name, "auto", or empty for none
  std::shared_ptr<const draft_account> weighed = {}; ///< if that is "auto"
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
    std::uint32_t num_tokens = 0; ///< of its draft that were worth verifying; 0: none
    float expected_tokens = 1;    ///< that the round would commit
    float cost = 1;               ///< of the round, in passes over one row
  };
  std::vector<option> options;   ///< drafters that proposed something
  bool plain_to_measure = false; ///< drafting promised more; the time of a plain round was wanted
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
  std::string drafter;                     ///< whose draft it was
  std::vector<token_id> draft_tokens;      ///< proposed, in node order
  std::vector<std::int32_t> parents;       ///< parent node of each draft token; -1 = the last committed token
  std::vector<std::int32_t> accepted;      ///< nodes kept, root first
  bool bonus = false;                      ///< the last committed token is a bonus, not a recovered one
  std::optional<draft_choice> choice = {}; ///< of a request whose drafter is "auto"
  work_span verified = {};                 ///< from the begin of the pass to the request's decision
  /// The making of the draft, read where it was made; a draft made in advance overlaps the round before.
  std::optional<work_span> drafted = {};
  std::vector<token_id> tokens = {}; ///< committed by the round: those accepted and the one after them
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
  std::string stop_string; ///< with finish_reason::stop: the stop string that ended it; empty: a token did
  time_point committed_at; ///< end of its round; unset in final events that no round decided
  std::optional<error> failure;                 ///< set with finish_reason::error
  std::optional<speculation_stats> speculation; ///< in the final event
  std::optional<request_timings> timings;       ///< in the final event
};

} // namespace paceline
