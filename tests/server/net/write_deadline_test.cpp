#include "server/net/write_deadline.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

using namespace std::chrono_literals;
constexpr write_deadline::time_point begin{1h};

TEST(write_deadline, a_client_that_takes_nothing_has_its_patience) {
  write_deadline deadline(30s, 1024);
  deadline.begin(begin, 500);
  EXPECT_EQ(deadline.expiry(), begin + 30s);
  EXPECT_TRUE(deadline.observe(begin + 29s, 500));
  EXPECT_EQ(deadline.expiry(), begin + 30s) << "looking changes nothing";
  EXPECT_FALSE(deadline.observe(begin + 30s, 500));
}

TEST(write_deadline, a_client_at_the_minimum_rate_is_never_cut) {
  write_deadline deadline(2s, 1024);
  deadline.begin(begin, 0);
  for (int second = 1; second <= 100'000; ++second)
    ASSERT_TRUE(deadline.observe(begin + std::chrono::seconds(second), second * 1024ULL)) << second;
}

TEST(write_deadline, a_client_that_takes_a_byte_a_second_is_cut_soon_after_its_patience) {
  write_deadline deadline(30s, 1024);
  deadline.begin(begin, 0);
  int second = 1;
  while (deadline.observe(begin + std::chrono::seconds(second), second)) ++second;
  EXPECT_EQ(second, 31);
}

TEST(write_deadline, lumps_count_as_what_they_are_on_average) {
  write_deadline deadline(30s, 1024);
  deadline.begin(begin, 0);
  for (int lump = 1; lump <= 1000; ++lump) // 25 KiB in 25 s
    ASSERT_TRUE(deadline.observe(begin + lump * 25s, lump * 25'600ULL)) << lump;
}

TEST(write_deadline, what_was_taken_early_buys_no_more_than_the_patience) {
  write_deadline deadline(30s, 1024);
  deadline.begin(begin, 0);
  ASSERT_TRUE(deadline.observe(begin + 1s, 1ULL << 40U));
  EXPECT_EQ(deadline.expiry(), begin + 31s);
  EXPECT_FALSE(deadline.observe(begin + 32s, 1ULL << 40U));
}

TEST(write_deadline, begins_anew_with_new_output) {
  write_deadline deadline(30s, 1024);
  deadline.begin(begin, 0);
  ASSERT_TRUE(deadline.observe(begin + 20s, 0));
  deadline.begin(begin + 60s, 0);
  EXPECT_EQ(deadline.expiry(), begin + 90s);
}

TEST(write_deadline, a_count_that_goes_back_is_no_progress) {
  write_deadline deadline(30s, 1024);
  deadline.begin(begin, 1000);
  ASSERT_TRUE(deadline.observe(begin + 1s, 0)); // the kernel did not report it
  ASSERT_TRUE(deadline.observe(begin + 2s, 1000));
  EXPECT_EQ(deadline.expiry(), begin + 30s);
}

} // namespace
} // namespace paceline::server
