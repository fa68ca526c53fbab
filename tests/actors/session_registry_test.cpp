// Delivery of events to sessions, which are numbers here.
#include "actors/session_registry.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>
#include <vector>

namespace paceline::actors {
namespace {

using registry = basic_session_registry<int>; // 0 is no session

std::vector<token_event> events_of(std::initializer_list<std::uint64_t> requests) {
  std::vector<token_event> out;
  for (const auto id : requests) out.emplace_back().request = request_id{id};
  return out;
}

std::vector<std::pair<int, std::size_t>> routed(const registry& sessions,
                                                const std::vector<token_event>& events) {
  std::vector<std::pair<int, std::size_t>> out;
  sessions.route(events, [&](int session, std::size_t index) { out.emplace_back(session, index); });
  return out;
}

TEST(session_registry, hands_each_event_to_the_session_of_its_request) {
  registry sessions;
  sessions.add(request_id{1}, 10), sessions.add(request_id{2}, 20);
  EXPECT_EQ(routed(sessions, events_of({2, 1})),
            (std::vector<std::pair<int, std::size_t>>{{20, 0}, {10, 1}}));
  EXPECT_TRUE(routed(sessions, {}).empty());
}

TEST(session_registry, events_of_requests_that_are_over_go_to_nobody) {
  registry sessions;
  sessions.add(request_id{1}, 10), sessions.add(request_id{2}, 20);
  sessions.add(request_id{3}, 0); // refused: it has no session
  sessions.remove(request_id{1});
  sessions.remove(request_id{1}); // reported twice
  EXPECT_EQ(routed(sessions, events_of({1, 2, 3, 4})), (std::vector<std::pair<int, std::size_t>>{{20, 1}}));
  EXPECT_EQ(sessions.find(request_id{1}), 0);
  EXPECT_EQ(sessions.all(), std::vector{20});
}

TEST(session_registry, a_session_may_end_while_events_are_handed_out) {
  registry sessions;
  sessions.add(request_id{1}, 10), sessions.add(request_id{2}, 20);
  std::vector<int> got;
  sessions.route(events_of({1, 2}), [&](int session, std::size_t) {
    got.push_back(session);
    sessions.remove(request_id{2});
  });
  EXPECT_EQ(got, std::vector{10});
}

TEST(session_registry, is_empty_once_the_last_request_is_over) {
  registry sessions;
  sessions.wait_until_empty();
  sessions.add(request_id{1}, 0);
  EXPECT_FALSE(sessions.wait_until_empty(std::chrono::milliseconds(0)));
  sessions.remove(request_id{1});
  EXPECT_TRUE(sessions.wait_until_empty(std::chrono::milliseconds(0)));
}

} // namespace
} // namespace paceline::actors
