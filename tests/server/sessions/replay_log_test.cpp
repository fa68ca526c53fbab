#include "server/sessions/replay_log.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace paceline::server {
namespace {

wire::response_event event(std::uint64_t sequence, std::uint32_t end_token,
                           std::string type = "response.output_text.delta") {
  return {std::move(type), std::string(100, 'x'), sequence, end_token};
}

/// created, in_progress, three deltas of two tokens, completed.
void fill(replay_log& log) {
  log.on_event(event(0, 0, "response.created"));
  log.on_event(event(1, 0, "response.in_progress"));
  for (std::uint64_t i = 0; i < 3; ++i) log.on_event(event(2 + i, 2 * (static_cast<std::uint32_t>(i) + 1)));
  log.on_event(event(5, 6, "response.completed"));
}

std::vector<std::uint64_t> read_from(replay_log& log, const replay_start& start) {
  std::vector<std::uint64_t> sequences;
  const auto reader = log.attach(start, {});
  if (!reader) return {999};
  for (const auto& e : log.take(*reader, 1 << 20).events) sequences.push_back(e.sequence_number);
  return sequences;
}

TEST(replay_log, begins_where_the_reader_stopped) {
  replay_log log(1 << 20);
  fill(log);
  using list = std::vector<std::uint64_t>;
  EXPECT_EQ(read_from(log, {}), (list{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(read_from(log, {0, {}}), (list{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(read_from(log, {1, {}}), (list{2, 3, 4, 5})) << "inside a delta: it comes again";
  EXPECT_EQ(read_from(log, {2, {}}), (list{3, 4, 5}));
  EXPECT_EQ(read_from(log, {3, {}}), (list{3, 4, 5}));
  EXPECT_EQ(read_from(log, {6, {}}), (list{5}));
  EXPECT_EQ(read_from(log, {{}, 3}), (list{4, 5}));
  EXPECT_EQ(read_from(log, {{}, 5}), (list{}));
  EXPECT_EQ(read_from(log, {{}, 6}), (list{999}));
}

TEST(replay_log, pauses_the_generation_when_nobody_reads) {
  replay_log log(1000);
  int room = 0;
  log.on_room([&] { ++room; });
  for (std::uint64_t i = 0; i < 6; ++i) log.on_event(event(i, static_cast<std::uint32_t>(i)));
  EXPECT_TRUE(log.congested());
  const auto reader = log.attach({}, {});
  EXPECT_EQ(log.take(*reader, 150).events.size(), 2U);
  EXPECT_FALSE(log.congested());
  EXPECT_EQ(room, 1);
}

TEST(replay_log, drops_only_what_was_taken) {
  replay_log log(1000);
  const auto reader = log.attach({}, {});
  for (std::uint64_t i = 0; i < 30; ++i) {
    log.on_event(event(i, static_cast<std::uint32_t>(i + 1)));
    ASSERT_EQ(log.take(*reader, 1 << 20).events.size(), 1U);
  }
  EXPECT_FALSE(log.attach({std::nullopt, 5}, {})) << "long gone";
  EXPECT_FALSE(log.attach({5, std::nullopt}, {}));
  EXPECT_TRUE(log.attach({28, std::nullopt}, {}));
}

TEST(replay_log, keeps_the_newest_events_that_nobody_has_asked_for) {
  replay_log log(1000, false);
  int room = 0;
  log.on_room([&] { ++room; });
  const auto add = [&](std::uint64_t from, std::uint64_t count) {
    for (auto i = from; i < from + count; ++i) log.on_event(event(i, static_cast<std::uint32_t>(i + 1)));
  };
  int woken = 0;
  const auto waiting = log.attach({std::nullopt, std::nullopt, true}, [&] { ++woken; });
  add(0, 30);
  EXPECT_FALSE(log.congested()) << "the generation does not pause";
  EXPECT_EQ(woken, 0);
  EXPECT_TRUE(log.take(*waiting, 1 << 20).events.empty());
  log.detach(*waiting, time_point{});
  add(30, 30);
  EXPECT_FALSE(log.congested());
  EXPECT_FALSE(log.attach({}, {})) << "long gone";
  EXPECT_EQ(read_from(log, {std::nullopt, 49}),
            (std::vector<std::uint64_t>{50, 51, 52, 53, 54, 55, 56, 57, 58, 59}));

  room = 0;
  const auto reader = log.attach({std::nullopt, 59}, {});
  add(60, 20);
  EXPECT_TRUE(log.congested()) << "a reader of events gets all of them";
  log.detach(*reader, time_point{});
  EXPECT_FALSE(log.congested());
  EXPECT_EQ(room, 1) << "the generation goes on";
  EXPECT_FALSE(log.attach({std::nullopt, 59}, {}));
}

TEST(replay_log, one_that_waits_for_the_result_gets_it) {
  replay_log log(1000, false);
  int woken = 0;
  const auto waiting = log.attach({std::nullopt, std::nullopt, true}, [&] { ++woken; });
  fill(log);
  finished_response result;
  result.object = {"{}", {}, {}};
  log.on_finished(result);
  EXPECT_EQ(woken, 1);
  EXPECT_TRUE(log.take(*waiting, 1).finished);
}

TEST(replay_log, a_reader_that_skips_events_makes_room) {
  replay_log log(1000);
  int room = 0;
  log.on_room([&] { ++room; });
  for (std::uint64_t i = 0; i < 6; ++i) log.on_event(event(i, static_cast<std::uint32_t>(i)));
  EXPECT_TRUE(log.congested());
  EXPECT_TRUE(log.attach({std::nullopt, 5}, {}));
  EXPECT_FALSE(log.congested());
  EXPECT_EQ(room, 1);
}

TEST(replay_log, a_new_reader_takes_over) {
  replay_log log(1000);
  fill(log);
  int woken = 0;
  const auto first = log.attach({}, [&] { ++woken; });
  const auto second = log.attach({}, {});
  EXPECT_EQ(woken, 1);
  EXPECT_TRUE(log.take(*first, 100).replaced);
  EXPECT_FALSE(log.take(*second, 100).replaced);
  log.detach(*first, time_point{}); // it is not the reader any more: nothing happens
  EXPECT_FALSE(log.close_if_unread(time_point{}));
  log.detach(*second, time_point{});
  EXPECT_TRUE(log.close_if_unread(time_point{}));
}

TEST(replay_log, takes_no_reader_once_it_is_closed) {
  replay_log log(1000);
  EXPECT_FALSE(log.close_if_unread(time_point{})) << "its first reader is about to attach";
  const auto reader = log.attach({}, {});
  EXPECT_FALSE(log.close_if_unread(time_point{}));
  log.detach(*reader, time_point{} + std::chrono::seconds(2));
  EXPECT_FALSE(log.close_if_unread(time_point{} + std::chrono::seconds(1)));
  const auto again = log.attach({}, {});
  ASSERT_TRUE(again);
  log.detach(*again, time_point{} + std::chrono::seconds(3));
  EXPECT_TRUE(log.close_if_unread(time_point{} + std::chrono::seconds(3)));
  EXPECT_FALSE(log.attach({}, {}));
}

TEST(replay_log, a_reader_that_takes_the_last_event_learns_the_end) {
  replay_log log(1000);
  std::uint64_t reader = 0;
  int num_last = 0;
  const auto read = [&] { // on a thread that is quicker than the writer
    const auto batch = log.take(reader, 1 << 20);
    if (batch.events.empty() || batch.events.back().type != "response.completed") return;
    ++num_last;
    EXPECT_TRUE(batch.finished);
  };
  reader = log.attach({}, read).value();
  log.on_event(event(0, 1));
  log.on_end({event(1, 1, "response.output_text.done"), event(2, 1, "response.completed")}, {});
  EXPECT_EQ(num_last, 1);
}

TEST(replay_log, is_finished_once_everything_was_taken) {
  replay_log log(1000);
  fill(log);
  finished_response result;
  result.object = {"{}", {}, {}};
  log.on_finished(result);
  const auto reader = log.attach({}, {});
  EXPECT_FALSE(log.take(*reader, 1).finished);
  EXPECT_TRUE(log.take(*reader, 1 << 20).finished);
  EXPECT_EQ(log.result()->object.text(), "{}");
}

TEST(replay_log, being_read_it_stays_and_keeps_little_when_memory_is_short) {
  const auto memory = std::make_shared<kept_memory>(100'000);
  replay_log log(1 << 20);
  log.keep_in(memory, memory->open("", [] { FAIL() << "somebody reads it"; }));
  const auto reader = log.attach({}, {});
  int room = 0;
  log.on_room([&] { ++room; });
  const auto tell = [&](std::uint64_t number) {
    log.on_event({"response.output_text.delta", std::string(60'000, 'x'), number, 0});
  };
  tell(0);
  EXPECT_FALSE(log.congested());
  tell(1);
  EXPECT_TRUE(log.congested()) << "the generation pauses";
  EXPECT_EQ(log.take(*reader, 1).events.size(), 1U);
  EXPECT_EQ(room, 1);
  EXPECT_EQ(memory->num_bytes(), 60'000U) << "what was taken is dropped";
  EXPECT_FALSE(log.congested());
}

} // namespace
} // namespace paceline::server
