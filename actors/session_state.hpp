#pragma once

#include "runtime/base/final_event.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/token_event.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace paceline::actors {

/// What a session knows of its request from the start.
struct session_terms {
  request_id request;
  model_number model;
  std::uint64_t credit = 0; ///< tokens that it may commit in all before it is granted more
  /// Tokens that the session grants ahead of what the sink has returned from; 0: the client grants.
  std::uint32_t own_window = 0;
};

/// What a session does, in this order. Messages go to its scheduler.
struct session_actions {
  bool deliver = false;                ///< the event that came goes to the client
  bool submit = false;                 ///< the request, with the credit it has now
  std::optional<std::uint64_t> credit; ///< tokens that the request may commit in all
  bool cancel = false;
  std::optional<token_event> last; ///< goes to the client as its last event
  bool over = false;               ///< the client has had its last event: the session ends
  friend bool operator==(const session_actions& a, const session_actions& b) {
    return a.deliver == b.deliver && a.submit == b.submit && a.credit == b.credit && a.cancel == b.cancel &&
           a.last.has_value() == b.last.has_value() && a.over == b.over;
  }
};

/// One request between its client and its scheduler, wherever that is. `Address`: of a scheduler; one that
/// compares equal to `Address{}` is none.
///
///   new -> started (submitted) -> over
///
/// Invariants: the client gets its output once and without a hole, and one last event, whatever comes twice
/// or out of turn; nothing is sent to a scheduler before `on_start`; a scheduler that is submitted to hears
/// of a cancellation that came before.
template <class Address>
class session_state {
 public:
  explicit session_state(session_terms terms) : terms_(std::move(terms)) {}

  /// The session can be found by its request. News of a restarted scheduler may have come before: they are
  /// newer.
  session_actions on_start(Address scheduler) {
    if (over_ || started_) return {};
    if (scheduler_ == Address{}) scheduler_ = std::move(scheduler);
    started_ = true;
    return submission();
  }
  /// The scheduler was restarted: what was submitted to the one before may be lost.
  session_actions on_scheduler_restarted(model_number model, Address scheduler) {
    if (over_ || model != terms_.model || scheduler == scheduler_) return {};
    scheduler_ = std::move(scheduler);
    return submission();
  }

  session_actions on_event(const token_event& event) {
    if (over_) return {};
    const auto end = std::uint64_t{event.first_index} + event.tokens.size();
    const bool is_last = event.finish != finish_reason::none;
    if (!is_last && !event.tokens.empty() && end <= num_output_) return {}; // reported again after a restart
    if (!event.tokens.empty() && event.first_index > num_output_) return on_events_lost(); // its news is late
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
  /// The client has room for `tokens` more.
  session_actions on_grant(std::uint64_t tokens) {
    terms_.credit += tokens;
    session_actions out;
    if (started_ && !over_) out.credit = terms_.credit;
    return out;
  }

  session_actions on_out_of_service(model_number model, const error& why) {
    return model == terms_.model ? fail(why) : session_actions{};
  }
  /// Events on their way are gone. A stream with a hole is worse than one that ends. Who has not submitted
  /// has missed nothing.
  session_actions on_events_lost() {
    return started_ ? fail(error{errc::device_lost, "the event actor was lost"}) : session_actions{};
  }
  /// The session itself has crashed.
  session_actions on_crash() { return fail(error{errc::device_lost, "the request's session was lost"}); }
  /// The engine ends, and with it the scheduler.
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

  /// Where the client leaves it to the engine, an event that the sink has returned from is its room for as
  /// many tokens more. Granted by the half window, so that few messages are spent on it.
  std::optional<std::uint64_t> repayment() {
    const auto window = terms_.own_window;
    const auto taken = num_output_ + num_scores_;
    if (window == 0 || taken + window < terms_.credit + window / 2) return std::nullopt;
    terms_.credit = taken + window;
    return terms_.credit;
  }

  session_terms terms_;
  Address scheduler_{};
  std::uint64_t num_output_ = 0; ///< tokens the client has got
  std::uint64_t num_scores_ = 0; ///< scores of its prompt that the client has got
  bool started_ = false, cancelled_ = false, over_ = false;
};

} // namespace paceline::actors
