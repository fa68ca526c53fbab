#include "server/net/outbound_queue.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

TEST(outbound_queue, is_congested_from_its_bound_to_half_of_it) {
  outbound_queue queue(10);
  for (int i = 0; i < 6; ++i) queue.push("ab");
  EXPECT_TRUE(queue.congested());
  const bool relieved[] = {false, false, false, true}; // 10, 8, 6 and 4 bytes are left
  for (const bool expected : relieved) {
    EXPECT_TRUE(queue.congested());
    const auto piece = queue.next_piece();
    EXPECT_TRUE(piece.ends_message);
    EXPECT_EQ(queue.written(piece.bytes.size()), expected);
  }
  EXPECT_FALSE(queue.congested());
}

TEST(outbound_queue, counts_what_is_being_written) {
  outbound_queue queue(3);
  queue.push("abcd");
  EXPECT_TRUE(queue.congested());
  EXPECT_EQ(queue.next_piece().bytes, "abcd");
  EXPECT_TRUE(queue.congested() && queue.writing() && !queue.empty());
  EXPECT_TRUE(queue.written(4));
  EXPECT_TRUE(queue.empty() && !queue.congested());
}

TEST(outbound_queue, joins_what_waits_into_one_write) {
  outbound_queue queue(1000);
  queue.push("a");
  queue.push("b");
  EXPECT_EQ(queue.next_bytes(), "ab");
  queue.written(2);
  EXPECT_FALSE(queue.has_next());
}

TEST(outbound_queue, goes_on_where_a_write_ended) {
  outbound_queue queue(1000);
  queue.push("abc");
  EXPECT_EQ(queue.next_bytes(), "abc");
  queue.written(1);
  queue.push("d");
  EXPECT_TRUE(queue.has_next());
  EXPECT_EQ(queue.next_bytes(), "bc");
  queue.written(2);
  EXPECT_EQ(queue.next_bytes(), "d");
  queue.written(1);
  EXPECT_TRUE(queue.empty());
}

TEST(outbound_queue, writes_a_large_reply_in_slices) {
  const std::string reply = std::string(outbound_queue::slice_bytes, 'a') + "b";
  outbound_queue queue(1000);
  queue.push(reply);
  EXPECT_EQ(queue.next_bytes().size(), outbound_queue::slice_bytes);
  EXPECT_FALSE(queue.written(outbound_queue::slice_bytes) && queue.empty());
  EXPECT_EQ(queue.next_bytes(), "b");
  queue.written(1);

  queue.push(reply);
  EXPECT_FALSE(queue.next_piece().ends_message);
  queue.written(outbound_queue::slice_bytes);
  const auto last = queue.next_piece();
  EXPECT_TRUE(last.ends_message && last.bytes == "b");
}

TEST(outbound_queue, a_failed_write_keeps_its_bytes) {
  outbound_queue queue(1000);
  queue.push("abc");
  queue.next_bytes();
  queue.written(0);
  EXPECT_EQ(queue.next_bytes(), "abc");
}

TEST(outbound_queue, holds_back_requests_while_output_waits) {
  outbound_queue queue(1U << 20U);
  queue.push(std::string(outbound_queue::request_bound, 'a'));
  EXPECT_FALSE(queue.holds_back_requests());
  queue.push("b");
  EXPECT_TRUE(queue.holds_back_requests());
  queue.next_bytes();
  EXPECT_TRUE(queue.holds_back_requests()) << "what is being written still waits";
  queue.written(1);
  EXPECT_FALSE(queue.holds_back_requests());

  outbound_queue small(10);
  small.push("more than ten");
  EXPECT_TRUE(small.holds_back_requests()) << "never later than congestion";
}

/// Provides `count` pieces of one letter each, and holds a text that it may share with others.
class letters final : public wire::text_source {
 public:
  explicit letters(std::size_t count, std::shared_ptr<std::string> read = {})
      : left_(count), read_(std::move(read)) {}
  std::string next(std::size_t) override { return left_-- > 0 ? "x" : ""; }
  bool at_end() const noexcept override { return left_ == 0; }
  std::size_t num_bytes() const noexcept override { return 10 * left_; }
  std::vector<shared_part> shared() const override {
    if (!read_) return {};
    return {{read_.get(), read_->size()}};
  }

 private:
  std::size_t left_;
  std::shared_ptr<std::string> read_;
};

/// Writes the next slice; returns the bytes held afterwards.
std::size_t held_after_a_write(outbound_queue& queue) {
  queue.written(queue.next_bytes().size());
  return queue.held_bytes();
}

TEST(outbound_queue, holds_what_its_sources_keep_and_what_they_share_once) {
  outbound_queue queue(1000);
  const auto read = std::make_shared<std::string>(500, 'r');
  queue.push(std::make_unique<letters>(2, read));
  queue.push("ab");
  queue.push(std::make_unique<letters>(1, read));
  queue.push(std::make_unique<letters>(1));
  EXPECT_EQ(queue.held_bytes(), 20 + 10 + 10 + 500 + 2);
  EXPECT_EQ(held_after_a_write(queue), 10 + 10 + 10 + 500 + 2);
  EXPECT_EQ(held_after_a_write(queue), 10 + 10 + 500);
  EXPECT_EQ(held_after_a_write(queue), 10);
  EXPECT_EQ(held_after_a_write(queue), 0);
  queue.keep(7);
  EXPECT_EQ(queue.held_bytes(), 7);
}

TEST(outbound_queue, what_it_holds_is_counted_for_all_connections) {
  const auto budget = std::make_shared<output_budget>(100'000, [] { return output_budget::time_point{}; });
  int told = 0;
  {
    outbound_queue queue(1000);
    queue.count_in(budget->open([&] { ++told; }));
    queue.push(std::string(20'000, 'a'));
    EXPECT_EQ(budget->num_bytes(), 20'000);
    queue.push(std::make_unique<letters>(3000));
    EXPECT_EQ(budget->num_bytes(), 50'000);
    queue.keep(30'000);
    EXPECT_EQ(budget->num_bytes(), 80'000);
    EXPECT_EQ(held_after_a_write(queue), 60'000);
    EXPECT_EQ(budget->num_bytes(), 60'000);
    EXPECT_EQ(told, 0);
    queue.keep(80'000);
    EXPECT_EQ(told, 1);
  }
  EXPECT_EQ(budget->num_bytes(), 0);
}

TEST(outbound_queue, makes_a_source_s_bytes_when_it_is_its_turn) {
  outbound_queue queue(1000);
  queue.push("a");
  queue.push(std::make_unique<letters>(2));
  queue.push("b");
  EXPECT_TRUE(queue.congested() && queue.holds_back_requests());
  std::string written;
  std::string ends;
  while (queue.has_next()) {
    const auto piece = queue.next_piece();
    written += piece.bytes;
    ends += piece.ends_message ? '1' : '0';
    queue.written(piece.bytes.size());
  }
  EXPECT_EQ(written, "axxb");
  EXPECT_EQ(ends, "1011"); // the message of two pieces ends with its second
  EXPECT_TRUE(queue.empty() && !queue.congested() && !queue.holds_back_requests());
}

TEST(outbound_queue, joins_messages_up_to_a_source_and_behind_it) {
  outbound_queue queue(1000);
  queue.push("a");
  queue.push("b");
  queue.push(std::make_unique<letters>(1));
  queue.push("c");
  EXPECT_EQ(queue.next_bytes(), "ab");
  EXPECT_FALSE(queue.written(2)) << "a source waits";
  EXPECT_EQ(queue.next_bytes(), "xc");
  EXPECT_TRUE(queue.written(2));
  EXPECT_TRUE(queue.empty());
}

} // namespace
} // namespace paceline::server
