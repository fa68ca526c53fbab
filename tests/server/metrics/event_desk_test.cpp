#include "server/metrics/event_desk.hpp"

#include "scripted_backend.hpp"
#include "server/metrics/stream_board.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

struct recording_watcher final : event_watcher {
  std::vector<std::string> texts;
  bool has_ended = false;
  void on_snapshot(const std::shared_ptr<const std::string>& text, bool is_last) override {
    texts.push_back(*text);
    has_ended = is_last;
  }
};

struct desk_of_two {
  int num_made = 0;
  std::shared_ptr<queue_executor> executor = std::make_shared<queue_executor>();
  event_desk desk{2, [this](std::uint64_t number) {
                    ++num_made;
                    return std::to_string(number);
                  }};
  std::shared_ptr<recording_watcher> join() {
    auto made = std::make_shared<recording_watcher>();
    return desk.watch(made, executor) ? made : nullptr;
  }
};

TEST(event_desk, a_watcher_gets_a_snapshot_at_once_and_then_all) {
  desk_of_two d;
  const auto first = d.join();
  d.desk.publish();
  const auto second = d.join();
  d.desk.publish();
  EXPECT_TRUE(first->texts.empty()) << "snapshots come on the executor";
  d.executor->run();
  EXPECT_EQ(first->texts, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(second->texts, (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(d.num_made, 4) << "one text for all";
}

TEST(event_desk, makes_nothing_for_nobody) {
  desk_of_two d;
  d.desk.publish();
  auto gone = d.join();
  gone.reset();
  d.desk.publish();
  d.executor->run();
  EXPECT_EQ(d.num_made, 1);
  EXPECT_EQ(d.desk.num_watchers(), 0U);
}

TEST(event_desk, has_room_for_some_and_again_when_they_have_gone) {
  desk_of_two d;
  auto first = d.join();
  const auto second = d.join();
  EXPECT_EQ(d.join(), nullptr);
  EXPECT_EQ(d.desk.num_watchers(), 2U);
  first.reset();
  EXPECT_NE(d.join(), nullptr);
}

TEST(event_desk, a_look_takes_no_place) {
  desk_of_two d;
  const auto first = d.join();
  const auto second = d.join();
  const auto looking = std::make_shared<recording_watcher>();
  EXPECT_TRUE(d.desk.look(looking, d.executor));
  d.desk.publish();
  d.executor->run();
  EXPECT_EQ(looking->texts, (std::vector<std::string>{"0"}));
  EXPECT_EQ(second->texts.size(), 2U);
  d.desk.publish(true);
  EXPECT_FALSE(d.desk.look(looking, d.executor));
}

TEST(event_desk, the_last_snapshot_ends_it) {
  desk_of_two d;
  const auto watcher = d.join();
  d.desk.publish(true);
  d.desk.publish(true);
  d.executor->run();
  EXPECT_EQ(watcher->texts.size(), 2U);
  EXPECT_TRUE(watcher->has_ended);
  EXPECT_EQ(d.join(), nullptr);
}

TEST(stream_board, lists_the_oldest_first) {
  stream_board board;
  const auto a = board.add("a", 3, {});
  const auto b = board.add("b", 4, {});
  const auto c = board.add("c", 5, {});
  board.remove(a);
  board.remove(a);
  EXPECT_EQ(board.size(), 2U);
  ASSERT_EQ(board.oldest(1).size(), 1U);
  EXPECT_EQ(board.oldest(1).front()->model, "b");
  EXPECT_EQ(board.oldest(9).back()->prompt_tokens, 5U);
}

} // namespace
} // namespace paceline::server
