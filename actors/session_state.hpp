#pragma once

#include "runtime/base/final_event.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/token_event.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace paceline::actors {

/// What a session knows about its request at the start.
struct session_terms {
  request_id request;
  model_number model;
  std::uint64_t credit = 0; ///< total tokens that the request may commit until more are granted
  /// 0: the client grants credit. Otherwise the session grants it: the request may commit this many tokens
  /// more than the sink has taken.
  std::uint32_t own_window = 0;
};

/// The actions of a session, carried out in the order of the members. `submit`, `credit` and `cancel` are
/// messages to the scheduler.
struct session_actions {
  bool deliver = false;                ///< pass the event that has just arrived to the client
  bool submit = false;                 ///< submit the request with its current credit
  std::optional<std::uint64_t> credit; ///< total tokens that the request may commit
  bool cancel = false;
  std::optional<token_event> last; ///< deliver this to the client as its last event
  bool over = false;               ///< the client has received its last event: the session ends
  friend bool operator==(const session_actions& a, const session_actions& b) {
    return a.deliver == b.deliver && a.submit == b.submit && a.credit == b.credit && a.cancel == b.cancel &&
           a.last.has_value() == b.last.has_value() && a.over == b.over;
  }
};

/// The state of one request between its client and its scheduler. `Address` is the type of a scheduler's
/// address; `Address{}` means none.
///
///   new -> started (submitted) -> over
///
/// Invariants: the client receives its output once, without gaps, and exactly one last event, even if
/// messages arrive twice or out of order. Nothing is sent to a scheduler before `on_start`. If a cancellation
/// arrives before the submission, it is sent to the scheduler after the submission.
template <class Address>
class session_state {
 public:
  explicit session_state(session_terms terms) : terms_(std::move(terms)) {}

  /// The session has been registered. If `on_scheduler_restarted` was called before, the address given there
  /// is newer than `scheduler` and is kept.
  session_actions on_start(Address scheduler) {
    if (over_ || started_) return {};
    if (scheduler_ == Address{}) scheduler_ = std::move(scheduler);
    started_ = true;
    return submission();
  }
  /// The scheduler was restarted: what was submitted to its predecessor may be lost.
  session_actions on_scheduler_restarted(model_number model, Address scheduler) {
    if (over_ || model != terms_.model || scheduler == scheduler_) return {};
    scheduler_ = std::move(scheduler);
    return submission();
  }

  session_actions on_event(const token_event& event) {
    if (over_) return {};
    const auto end = std::uint64_t{event.first_index} + event.tokens.size();
    const bool is_last = event.finish != finish_reason::none;
    if (!is_last && !event.tokens.empty() && end <= num_output_) return {}; // repeated after a restart
    // An earlier event was lost, and the message that reports the loss has not arrived yet.
    if (!event.tokens.empty() && event.first_index > num_output_) return on_events_lost();
    num_output_ = std::max(num_output_, end);
    num_scores_ += event.prompt_logprobs.size();
    over_ = is_last;
    session_actions out;
    out.deliver = true;
    out.over = is_last;
    if (!is_last) out.credit = repayment();
    return out;
  }

  session_actions on_cancel() {
    cancelled_ = true;
    session_actions out;
    out.cancel = started_ && !over_;
    return out;
  }
  /// The client allows `tokens` more tokens.
  session_actions on_grant(std::uint64_t tokens) {
    terms_.credit += tokens;
    session_actions out;
    if (started_ && !over_) out.credit = terms_.credit;
    return out;
  }

  session_actions on_out_of_service(model_number model, const error& why) {
    return model == terms_.model ? fail(why) : session_actions{};
  }
  /// Events in transit were lost, so the output would have a gap: the request ends with device_lost. A
  /// session that has not submitted its request has lost nothing and continues.
  session_actions on_events_lost() {
    return started_ ? fail(error{errc::device_lost, "the event actor was lost"}) : session_actions{};
  }
  /// The session itself crashed.
  session_actions on_crash() { return fail(error{errc::device_lost, "the request's session was lost"}); }
  /// The engine stops.
  session_actions on_shutdown() {
    if (over_) return {};
    return end(final_event(terms_.request, finish_reason::cancelled));
  }

  request_id request() const noexcept { return terms_.request; }
  std::uint64_t credit() const noexcept { return terms_.credit; }
  const Address& scheduler() const noexcept { return scheduler_; }

 private:
  session_actions submission() const {
    session_actions out;
    out.submit = started_;
    out.cancel = started_ && cancelled_;
    return out;
  }

  session_actions fail(const error& why) {
    if (over_) return {};
    auto out = end(final_event(terms_.request, finish_reason::error, why));
    out.cancel = started_;
    return out;
  }

  session_actions end(token_event last) {
    over_ = true;
    session_actions out;
    out.last = std::move(last);
    out.over = true;
    return out;
  }

  /// If `own_window` is not 0, and the sink has taken at least half a window since the last grant: the new
  /// total credit. Waiting for half a window saves messages.
  std::optional<std::uint64_t> repayment() {
    const auto window = terms_.own_window;
    const auto taken = num_output_ + num_scores_;
    if (window == 0 || taken + window < terms_.credit + window / 2) return std::nullopt;
    terms_.credit = taken + window;
    return terms_.credit;
  }

  session_terms terms_;
  Address scheduler_{};
  std::uint64_t num_output_ = 0; ///< output tokens delivered to the client
  std::uint64_t num_scores_ = 0; ///< scores of the prompt delivered to the client
  bool started_ = false, cancelled_ = false, over_ = false;
};

} // namespace paceline::actors
