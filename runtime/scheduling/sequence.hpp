#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/request.hpp"
#include "runtime/base/token_event.hpp"
#include "runtime/sampling/pipeline.hpp"
#include "runtime/scheduling/beam_search.hpp"
#include "runtime/scheduling/text_output.hpp"
#include "runtime/speculation/control/draft_controller.hpp"
#include "runtime/speculation/drafters/drafter.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace paceline::scheduling {

/// One running request: what is committed and what that means for the next token.
///
/// Invariants: tokens()[0 .. prompt_length()) is the prompt; every later token was committed once, in order;
/// kv_length() < length(): the KV of the last committed token is never computed yet. Nothing is committed
/// after finish() is set.
///
/// Threads: made by the engine; from admission on touched only inside programs. Programs that touch one
/// sequence are ordered by fences: a round's draft program runs after the verify program of the round before,
/// and before its own.
class sequence {
 public:
  /// `context_length`: positions the target and the pool can hold. `text` may be null (no text wanted).
  sequence(request_id id, generation_request request, std::uint32_t context_length,
           std::unique_ptr<text_output> text, time_point submitted);
  /// Says, before the request begins, that its target promises no more than `most`: of a device in fast mode.
  void limit_guarantee(guarantee most) { stats_.guarantee = std::max(stats_.guarantee, most); }
  /// Tells the sessions with drafters what the request came to.
  ~sequence();
  sequence(const sequence&) = delete;
  sequence& operator=(const sequence&) = delete;

  request_id id() const noexcept { return id_; }
  const generation_request& request() const noexcept { return request_; }
  const sampling::pipeline& pipeline() const noexcept { return pipeline_; }
  /// Of the committed tokens. Made when first asked for: requests that wait have none.
  const sampling::token_counts& counts() const;

  std::span<const token_id> tokens() const noexcept { return tokens_; }
  std::uint32_t length() const noexcept { return static_cast<std::uint32_t>(tokens_.size()); }
  std::uint32_t prompt_length() const noexcept { return prompt_length_; }
  std::uint32_t output_length() const noexcept { return length() - prompt_length_; }
  /// Output tokens the request may still commit.
  std::uint32_t remaining() const noexcept { return max_output_ - output_length(); }
  finish_reason finish() const noexcept { return finish_; }

  /// Positions whose KV is valid in the target's pool.
  std::uint32_t kv_length() const noexcept { return kv_length_; }
  void set_kv_length(std::uint32_t length);

  /// Opens an event that collects what the round commits.
  void begin_round(time_point now);
  /// Commits one token. Returns false when the request has ended with it (the rest of the round is dropped).
  bool commit(token_id token, std::optional<token_logprob> logprob);
  void add_prompt_logprob(token_logprob logprob);
  std::uint32_t num_prompt_logprobs() const noexcept { return num_prompt_logprobs_; }
  /// Counts one verification with `num_draft` > 0 draft tokens.
  void count_verification(std::uint32_t num_draft, std::uint32_t num_accepted);
  /// Ends the round. The event is empty (no tokens, no end) if the round only computed prompt rows.
  token_event end_round(std::optional<round_trace> trace, time_point now);
  /// The request's beam search; null if it has none. Until that has finished nothing is committed.
  beam_search* beams() noexcept { return beams_.get(); }
  const beam_search* beams() const noexcept { return beams_.get(); }
  /// What the beam search needs to know of the request.
  beam_context context_of_beams() const noexcept;
  /// Commits the best hypothesis and reports the others, once the search has finished.
  void commit_best_hypothesis();
  /// Ends a request whose prompt was all that was asked for (max_tokens 0).
  void finish_prompt_only() { finish_ = finish_reason::length; }

  /// Session with drafter number `index`, made at first use.
  speculation::drafter_session* session(std::uint32_t index, speculation::drafter& drafter);
  /// Forgets the session: the drafter starts over.
  void reset_session(std::uint32_t index);
  /// Goes on with this one, a clone.
  void adopt_session(std::uint32_t index, std::unique_ptr<speculation::drafter_session> session);

  /// Length at which a worker drafted last; 0 before. Of its programs.
  std::uint32_t drafted_at = 0;
  /// Hidden states of the last verified rows, oldest first (taps of this request's drafter).
  std::vector<float> features;
  /// What the controller of "auto" knows of this request.
  speculation::draft_history drafts;
  /// What the last round that decided tokens verified and kept: for the drafter of the next one.
  std::optional<speculation::round_feedback> last_round;
  /// Prompt tokens that were found in the prefix cache at the last admission.
  std::uint32_t num_cached_tokens = 0;

 private:
  bool ends_by_id(token_id token) const;

  request_id id_;
  generation_request request_;
  sampling::pipeline pipeline_;
  mutable sampling::token_counts counts_; ///< see counts()
  mutable bool counted_ = false;
  std::vector<token_id> tokens_;
  std::uint32_t prompt_length_;
  std::uint32_t max_output_;
  std::uint32_t kv_length_ = 0;
  std::uint32_t num_prompt_logprobs_ = 0;
  finish_reason finish_ = finish_reason::none;
  std::unique_ptr<text_output> text_;
  std::unique_ptr<beam_search> beams_;
  std::vector<std::unique_ptr<speculation::drafter_session>> sessions_;
  speculation_stats stats_;
  token_event event_;
  time_point submitted_;
  std::optional<time_point> first_round_;
  std::optional<time_point> first_token_;
};

} // namespace paceline::scheduling
