#pragma once

#include "tests/runtime/scheduling/decided.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace paceline::scheduling::test_support {

/// A scheduler with a pool and a device that carry out its decisions at once, or when told. Its requests
/// decode plainly. Tokens committed before a preemption are forgotten, because no program writes the logs.
class played_scheduler {
 public:
  explicit played_scheduler(scheduler_options options) : state(std::move(options)) {}

  static constexpr std::uint32_t prompt_length = 8;

  /// Every request is a tenant of its own, as where a client names another user each time.
  request_id submit(std::uint64_t credit, std::uint32_t max_tokens = 40, std::string owner = {},
                    std::int32_t priority = 0) {
    generation_request request;
    request.prompt.assign(prompt_length, token_id{1});
    request.stop.max_tokens = max_tokens;
    request.owner = std::move(owner);
    request.priority = priority;
    request.sampling.prompt_logprobs = scores_prompts;
    const request_id id{++num_submitted_};
    request.tenant = to_string(id);
    max_length_[id] = prompt_length + max_tokens;
    take(state.submit(admitted(id, std::move(request)), plain_decoding, credit, now));
    return id;
  }
  void grant(request_id id, std::uint64_t tokens) { take(state.grant(id, tokens, now)); }
  void cancel(request_id id) { take(state.cancel(id, now)); }
  /// Advances the time.
  void wait(std::chrono::nanoseconds time) {
    now += time;
    take(state.on_tick(now, [this](request_id id) { return !without_session.contains(id); }));
  }
  /// Reports the oldest round in flight.
  void report() {
    ASSERT_FALSE(in_flight.empty());
    const auto plan = std::move(in_flight.front());
    in_flight.pop_front();
    round_result result;
    result.round = plan.round;
    result.group = plan.group;
    result.started = true;
    result.submissions = {plan.round.value};
    for (const auto& item : plan.items) result.items.push_back(played(item));
    take(state.on_round_done(result, now));
    ASSERT_EQ(state.check_invariants(), "");
  }
  void report_all() {
    while (!in_flight.empty()) report();
  }
  /// Sends the pool's answers to all unanswered questions, in one message.
  decisions answer_all() {
    auto answers = std::exchange(unanswered, {});
    return state.on_leases(answers, false, now);
  }
  void take(decisions d) {
    for (auto& plan : d.rounds) in_flight.push_back(std::move(plan));
    for (const auto& command : d.pool) {
      if (const auto* gone = std::get_if<release_command>(&command)) released.push_back(gone->request);
      if (const auto* asked = std::get_if<reserve_command>(&command))
        unanswered.push_back(answer(asked->request, asked->ticket, asked->num_positions));
      if (const auto* asked = std::get_if<acquire_command>(&command)) {
        if (!full) admitted_.push_back(asked->request);
        length_[asked->request] = static_cast<std::uint32_t>(asked->tokens.size());
        unanswered.push_back(answer(asked->request, asked->ticket, asked->num_positions));
      }
    }
    if (answers_at_once && !unanswered.empty()) take(answer_all());
  }
  /// Requests in the order of their first leases since the last call.
  std::vector<request_id> admitted_since() { return std::exchange(admitted_, {}); }

  scheduler_state state;
  time_point now = start;
  bool answers_at_once = true;
  bool full = false;           ///< the pool refuses requests
  bool scores_prompts = false; ///< for requests submitted from now on
  std::deque<round_plan> in_flight;
  std::vector<lease_event> unanswered;
  std::vector<request_id> released;
  std::set<request_id> without_session; ///< requests whose clients have left

 private:
  lease_event answer(request_id id, std::uint64_t ticket, std::uint32_t num_positions) const {
    if (full) return {id, target_pool, ticket, false, {}, 0, {}};
    return test_support::grant(id, target_pool, ticket, (num_positions + 3) / 4);
  }
  item_result played(const plan_item& item) {
    const auto id = item.request.id();
    if (item.restart_at) computed_[id] = *item.restart_at;
    computed_[id] += item.max_rows;
    item_result made;
    made.request = id;
    made.num_rows = item.max_rows;
    made.kv_length = computed_[id];
    const bool decides = computed_[id] == length_[id];
    if (decides && length_[id] < max_length_[id]) {
      ++length_[id];
      made.committed = {token_id{7}};
    }
    made.length = length_[id];
    if (decides && made.length == max_length_[id]) made.finish = finish_reason::length;
    return made;
  }

  std::uint64_t num_submitted_ = 0;
  std::map<request_id, std::uint32_t> length_, computed_, max_length_;
  std::vector<request_id> admitted_;
};

} // namespace paceline::scheduling::test_support
