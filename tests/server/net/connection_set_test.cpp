#include "server/net/connection_set.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

using admission = connection_set::admission;
constexpr std::chrono::milliseconds at_once{0};

struct fake_connection final : connection {
  std::shared_ptr<connection_set::ticket> ticket;
  bool drained = false, cut = false, aborted = false;

  void drain() override { drained = true; }
  void cut_short() override { cut = true; }
  void abort() override { aborted = true; }
};

struct opened {
  std::shared_ptr<fake_connection> who = std::make_shared<fake_connection>();
  connection_set::place place;

  explicit opened(connection_set& set) : place(set.add(who)) { who->ticket = place.held; }
  connection_set::ticket& ticket() { return *place.held; }
  void close() {
    who->ticket.reset();
    place.held.reset();
  }
};

TEST(connection_set, a_connection_over_the_limit_takes_the_place_of_the_one_silent_for_longest) {
  connection_set set(2);
  opened first(set), second(set);
  first.ticket().note_activity();
  opened third(set);
  EXPECT_TRUE(second.who->aborted);
  EXPECT_FALSE(first.who->aborted);
  EXPECT_EQ(third.place.outcome, admission::admitted);
  EXPECT_TRUE(third.place.evicted_another);
  EXPECT_EQ(set.size(), 2U);
  opened fourth(set);
  EXPECT_TRUE(first.who->aborted) << "the evicted one has not closed yet, and frees no second place";
  second.close();
  EXPECT_EQ(set.size(), 2U);
}

TEST(connection_set, a_connection_that_sent_a_whole_request_is_never_evicted) {
  connection_set set(1, 1);
  opened settled(set);
  settled.ticket().note_request();
  opened fresh(set);
  EXPECT_EQ(fresh.place.outcome, admission::refused);
  EXPECT_FALSE(settled.who->aborted || fresh.place.evicted_another);
  EXPECT_EQ(set.size(), 1U);
  opened another(set);
  EXPECT_EQ(another.place.outcome, admission::dropped) << "one may be told, the others find a closed door";
  EXPECT_EQ(another.place.held, nullptr);
  fresh.close();
  EXPECT_EQ(opened(set).place.outcome, admission::refused);
  settled.close();
  EXPECT_EQ(opened(set).place.outcome, admission::admitted);
}

TEST(connection_set, a_refused_connection_takes_no_place_whatever_it_sends) {
  connection_set set(1);
  opened settled(set);
  settled.ticket().note_request();
  opened refused(set);
  refused.ticket().note_activity();
  refused.ticket().note_request();
  EXPECT_EQ(set.size(), 1U);
  EXPECT_FALSE(set.evict_silent());
}

TEST(connection_set, a_silent_one_gives_way_when_something_else_is_scarce) {
  connection_set set(10);
  opened silent(set), settled(set);
  settled.ticket().note_request();
  EXPECT_TRUE(set.evict_silent());
  EXPECT_TRUE(silent.who->aborted);
  EXPECT_FALSE(set.evict_silent());
  silent.ticket().note_activity();
  silent.ticket().note_request();
  EXPECT_EQ(set.size(), 1U) << "it has left, whatever still arrives";
}

TEST(connection_set, a_drain_waits_for_work_and_not_for_connections) {
  connection_set set(10);
  opened idle(set), working(set);
  EXPECT_TRUE(set.wait_until_idle(at_once));
  working.ticket().begin_work();
  working.ticket().begin_work();
  EXPECT_FALSE(set.wait_until_idle(at_once));
  working.ticket().end_work();
  EXPECT_TRUE(set.wait_until_idle(at_once));
  working.ticket().begin_work();
  working.close();
  EXPECT_TRUE(set.wait_until_idle(at_once)) << "a connection takes its work with it";
}

TEST(connection_set, tells_everybody_and_closes) {
  connection_set set(10);
  opened one(set), two(set);
  auto successor = std::make_shared<fake_connection>();
  set.replace(two.ticket(), successor);
  set.drain_all();
  set.cut_all_short();
  set.close();
  for (const auto& who : {one.who, successor}) EXPECT_TRUE(who->drained && who->cut && who->aborted);
  EXPECT_FALSE(two.who->drained);
  EXPECT_EQ(opened(set).place.outcome, admission::dropped);
}

} // namespace
} // namespace paceline::server
