#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/base/token_event.hpp"
#include "runtime/sampling/token_counts.hpp"
#include "runtime/scheduling/request_terms.hpp"
#include "runtime/speculation/drafters/draft.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace paceline::rounds {
class beam_search;
class request_progress;
} // namespace paceline::rounds

namespace paceline::scheduling {

/// The tokens of a request, append-only, and the decisions of its rounds. A draft continues this log, and a
/// `draft_request` names it.
///
/// Invariants: tokens()[0 .. prompt_length) is the prompt. Every later token was committed once, in order.
/// Nothing is committed after finish() is set.
///
/// Threads: written by verify programs only, through the request's `rounds::request_progress`. Read by draft
/// programs after the fence in their `draft_request` has passed, and by the scheduler while no round of the
/// request is in flight.
class committed_log {
 public:
  explicit committed_log(std::shared_ptr<const request_terms> terms);
  committed_log(const committed_log&) = delete;
  committed_log& operator=(const committed_log&) = delete;

  const request_terms& terms() const noexcept { return *terms_; }
  std::span<const token_id> tokens() const noexcept { return tokens_; }
  std::uint32_t length() const noexcept { return static_cast<std::uint32_t>(tokens_.size()); }
  std::span<const token_id> output() const noexcept {
    return std::span(tokens_).subspan(terms_->prompt_length());
  }
  std::uint32_t output_length() const noexcept { return length() - terms_->prompt_length(); }
  /// Number of output tokens that the request may still commit.
  std::uint32_t remaining() const noexcept { return terms_->max_output() - output_length(); }
  finish_reason finish() const noexcept { return finish_; }
  /// How often each token occurs in the committed tokens. Created at the first call, so that waiting requests
  /// need no memory for it.
  const sampling::token_counts& counts() const;

  /// True if the target has computed all tokens but the last, so that the next row decides a token. False
  /// while the prompt is computed, or computed again after a preemption.
  bool is_computed() const noexcept { return computed_; }
  /// Number of the admission (`plan_item::admission`) whose blocks hold the target's cells; 0 before the
  /// first admission.
  std::uint32_t admission() const noexcept { return admission_; }
  /// The outcome of the last round that decided tokens, for the next round's drafter. Null if no round has
  /// decided tokens yet.
  const speculation::round_feedback* last_round() const noexcept {
    return last_round_ ? &*last_round_ : nullptr;
  }
  /// The request's beam search, null if it has none. Nothing is committed until the search has finished.
  const rounds::beam_search* beams() const noexcept { return beams_.get(); }

  /// True once the request's `request_progress` is destroyed: no round of the request will run any more. Any
  /// thread may call this at any time. After it has returned true, the whole log may be read.
  bool is_over() const noexcept { return over_.load(std::memory_order_acquire); }

 private:
  friend class rounds::request_progress; ///< the only writer

  std::shared_ptr<const request_terms> terms_;
  std::vector<token_id> tokens_;
  mutable sampling::token_counts counts_; ///< see counts()
  mutable bool counted_ = false;
  finish_reason finish_ = finish_reason::none;
  bool computed_ = false;
  std::uint32_t admission_ = 0;
  std::optional<speculation::round_feedback> last_round_;
  std::shared_ptr<const rounds::beam_search> beams_;
  std::atomic<bool> over_ = false;
};

} // namespace paceline::scheduling
