#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/token_constraint.hpp"
#include "runtime/base/token_event.hpp"
#include "runtime/rounds/beam_search.hpp"
#include "runtime/rounds/draft_cursor.hpp"
#include "runtime/rounds/hypothesis_sessions.hpp"
#include "runtime/rounds/request_states.hpp"
#include "runtime/rounds/text_output.hpp"
#include "runtime/scheduling/committed_log.hpp"
#include "runtime/scheduling/request_terms.hpp"
#include "runtime/speculation/control/draft_controller.hpp"
#include "runtime/speculation/drafters/drafter.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace paceline::rounds {

/// The state of a request that verify programs keep between rounds: the KV's length, statistics, the beam
/// search, the text, and the sessions of in-line drafters. It is the only writer of the request's log.
///
/// Invariant: kv_length() < length of the log, because the KV of the last committed token is not computed
/// yet. Exception: a request without output (max_output() 0), whose prompt is computed to its end.
///
/// Threads: used by verify programs of the target's stream only.
class request_progress {
 public:
  /// `log` is the log of `terms`. `text` may be null (no text wanted).
  request_progress(std::shared_ptr<const scheduling::request_terms> terms,
                   std::shared_ptr<scheduling::committed_log> log, std::unique_ptr<text_output> text);
  /// Ends the sessions of the in-line drafters, which learn the final tokens, and marks the log as over.
  ~request_progress();
  request_progress(const request_progress&) = delete;
  request_progress& operator=(const request_progress&) = delete;

  const scheduling::request_terms& terms() const noexcept { return *terms_; }
  const scheduling::committed_log& log() const noexcept { return *log_; }

  /// Positions whose KV is valid in the target's pool.
  std::uint32_t kv_length() const noexcept { return kv_length_; }
  void set_kv_length(std::uint32_t length);
  /// The request was admitted, or came back after a preemption. Its KV is valid up to `length`, in the blocks
  /// of this admission, whose number is `admission` (scheduling::plan_item). The KV of `num_cached_tokens` of
  /// these positions came from the prefix cache.
  void restart_at(std::uint32_t length, std::uint32_t num_cached_tokens, std::uint32_t admission);

  /// The recurrent states; unused if the model has none.
  request_states& states() noexcept { return states_; }

  /// Starts an event that collects what the round commits.
  void begin_round(time_point now);
  /// Commits one token. Returns false if the token has ended the request; the rest of the round is then
  /// dropped.
  bool commit(token_id token, std::optional<token_logprob> logprob);
  /// Adds the log-probability of the next prompt token to the round's event.
  void add_prompt_logprob(token_logprob logprob);
  /// Number of prompt log-probabilities added so far, in all rounds.
  std::uint32_t num_prompt_logprobs() const noexcept { return num_prompt_logprobs_; }
  /// Counts an open round: one in which `drafter`, which is not `plain_decoding`, could draft.
  void count_open_round(drafter_index drafter);
  /// Counts one verification with `num_draft` > 0 draft tokens.
  void count_verification(std::uint32_t num_draft, std::uint32_t num_accepted);
  /// The drafter of the request's last open round; `plain_decoding`: there was none.
  drafter_index drafter() const noexcept { return drafter_; }
  /// Stores what the round verified and kept, for the drafter of the next round.
  void keep_feedback(speculation::round_feedback feedback) { log_->last_round_ = std::move(feedback); }
  /// Ends the round and returns its event. If the round only computed prompt rows, the event has no tokens
  /// and no finish reason. Exception: with max_tokens 0, the event of the prompt's last row has a finish
  /// reason.
  token_event end_round(std::optional<round_trace> trace, time_point now);
  /// The request's beam search; null if it has none.
  beam_search* beams() noexcept { return beams_.get(); }
  const beam_search* beams() const noexcept { return beams_.get(); }
  /// The request's data for the beam search.
  beam_context context_of_beams() const noexcept;
  /// Commits the best hypothesis and reports the others; only once the search has finished.
  void commit_best_hypothesis();
  /// Ends a request that asked for its prompt only (max_tokens 0).
  void finish_prompt_only() { log_->finish_ = finish_reason::length; }

  /// Session of in-line drafter `index`, created at first use.
  speculation::drafter_session* session(drafter_index index, speculation::drafter& drafter);
  /// Drops the session: the drafter starts over.
  void reset_session(drafter_index index) {
    if (index.value < sessions_.size()) sessions_[index.value].reset();
  }
  /// Sessions of the request's drafter for the hypotheses of its beam search.
  hypothesis_sessions& sessions_of_hypotheses() noexcept { return sessions_of_hypotheses_; }
  /// The cursor of the request's constraint with which its tokens are chosen; null: no constraint. Drafts
  /// have another cursor, so that this one does the same work as in plain decoding.
  constraint_cursor* constraint();
  /// The cursor with which verify programs handle drafts: in-line drafters use it, and all drafts are checked
  /// with it. null: no constraint.
  constraint_cursor* draft_constraint();
  bool has_exhausted_constraint() const noexcept { return constraint_ && constraint_->is_exhausted(); }
  /// What the controller of "auto" has learnt about this request.
  speculation::draft_history& history() noexcept { return history_; }

 private:
  beam_hypothesis shown(const beam_result& result) const;

  std::shared_ptr<const scheduling::request_terms> terms_;
  std::shared_ptr<scheduling::committed_log> log_;
  std::unique_ptr<text_output> text_;
  std::shared_ptr<beam_search> beams_;
  std::uint32_t kv_length_ = 0;
  request_states states_;
  std::uint32_t num_cached_tokens_ = 0; ///< prompt tokens found in the prefix cache at the last admission
  std::uint32_t num_prompt_logprobs_ = 0;
  std::vector<std::unique_ptr<speculation::drafter_session>> sessions_; ///< by drafter index
  hypothesis_sessions sessions_of_hypotheses_;
  std::unique_ptr<constraint_cursor> constraint_; ///< created at first use
  draft_cursor draft_constraint_;
  speculation::draft_history history_;
  speculation_stats stats_;
  drafter_index drafter_ = plain_decoding;
  token_event event_;
  std::optional<time_point> first_round_;
  std::optional<time_point> first_token_;
};

} // namespace paceline::rounds
