#include "server/net/body_intake.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace paceline::server::body_intake_test {
namespace {

using namespace std::chrono_literals;
using state = body_intake::state;
constexpr std::size_t kib = 1024;

struct fixture {
  body_intake::time_point now{1h};
  std::shared_ptr<body_budget> budget = std::make_shared<body_budget>(200 * kib, [this] { return now; });

  body_intake open(const request_head& head, std::uint64_t max_bytes = 1024 * kib) {
    return {head, max_bytes, {10s, 60s, 1024}, now, budget, "tenant", [] {}};
  }
};

request_head chunked() {
  request_head head;
  head.is_chunked = true;
  return head;
}

request_head of_length(std::uint64_t length) {
  request_head head;
  head.content_length = length;
  return head;
}

state feed(body_intake& body, std::string_view bytes) { return body.take(bytes); }

std::string text_of(body_intake& body) {
  request_body whole;
  EXPECT_TRUE(body.finish(whole));
  return std::string(whole.text);
}

std::string chunk_of(std::size_t size) {
  char line[32];
  std::snprintf(line, sizeof line, "%zx\r\n", size);
  return line + std::string(size, 'x') + "\r\n";
}

TEST(body_intake, takes_a_body_of_known_length_and_nothing_behind_it) {
  fixture f;
  auto body = f.open(of_length(5));
  EXPECT_EQ(feed(body, "he"), state::arriving);
  std::string_view rest = "lloGET /";
  EXPECT_EQ(body.take(rest), state::complete);
  EXPECT_EQ(rest, "GET /");
  EXPECT_EQ(text_of(body), "hello");
  auto none = f.open(of_length(0));
  EXPECT_EQ(feed(none, ""), state::complete);
}

TEST(body_intake, takes_a_chunked_body_and_nothing_behind_it) {
  fixture f;
  auto body = f.open(chunked());
  EXPECT_EQ(feed(body, "2\r\nhe\r\n3\r\nl"), state::arriving);
  std::string_view rest = "lo\r\n0\r\n\r\nGET /";
  EXPECT_EQ(body.take(rest), state::complete);
  EXPECT_EQ(rest, "GET /");
  EXPECT_EQ(feed(body, ""), state::complete) << "asked again";
  EXPECT_EQ(text_of(body), "hello");
}

TEST(body_intake, bounds_and_counts_chunked_bodies_like_others) {
  fixture f;
  auto longest = f.open(chunked(), 100);
  EXPECT_EQ(feed(longest, chunk_of(100) + "0\r\n\r\n"), state::complete);
  auto longer = f.open(chunked(), 100);
  EXPECT_EQ(feed(longer, chunk_of(100) + chunk_of(1)), state::refused);
  EXPECT_EQ(longer.refusal().status, 413);
  EXPECT_EQ(feed(longer, "0\r\n\r\n"), state::refused) << "it stays refused";

  auto large = f.open(chunked());
  EXPECT_EQ(feed(large, chunk_of(100 * kib)), state::arriving);
  EXPECT_EQ(f.budget->num_bytes(), 100 * kib - body_budget::free_bytes);
  EXPECT_EQ(feed(large, chunk_of(300 * kib)), state::gives_way) << "the budget has no room";
}

TEST(body_intake, a_chunked_body_earns_its_time_byte_by_byte) {
  fixture f;
  auto known = f.open(of_length(20 * kib));
  EXPECT_EQ(known.time_left(f.now), 30s);
  EXPECT_EQ(known.time_left(f.now + 29s), 1s);
  EXPECT_EQ(f.open(of_length(1024 * kib)).time_left(f.now), 60s) << "and never longer";

  auto body = f.open(chunked());
  EXPECT_EQ(body.time_left(f.now), 10s);
  EXPECT_EQ(feed(body, chunk_of(20 * kib)), state::arriving);
  EXPECT_EQ(body.time_left(f.now), 30s);
  EXPECT_EQ(feed(body, "1;" + std::string(2000, 'e')), state::arriving);
  EXPECT_EQ(body.time_left(f.now), 30s) << "framing earns nothing";
  EXPECT_EQ(body.time_left(f.now + 31s), 0s);
  EXPECT_EQ(feed(body, "\r\n"), state::arriving);
}

} // namespace
} // namespace paceline::server::body_intake_test
