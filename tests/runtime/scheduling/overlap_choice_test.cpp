#include "runtime/scheduling/overlap_choice.hpp"

#include <gtest/gtest.h>

#include <map>

namespace paceline::scheduling {
namespace {

using std::chrono::microseconds;

/// Rounds of `num_requests` whose periods the modes decide; returns how many ran in which mode.
std::map<ahead_mode, int> run(overlap_choice& choice, int num_rounds, std::uint32_t num_requests,
                              std::map<ahead_mode, int> periods) {
  std::map<ahead_mode, int> rounds;
  for (int i = 0; i < num_rounds; ++i) {
    const auto mode = choice.mode();
    ++rounds[mode];
    choice.observe(mode, num_requests, microseconds(periods.at(mode)));
  }
  return rounds;
}

const std::vector all{ahead_mode::off, ahead_mode::ahead, ahead_mode::outcomes};

TEST(overlap_choice, tries_every_mode_and_stays_with_the_fastest) {
  overlap_choice choice(all);
  auto rounds =
      run(choice, 600, 1, {{ahead_mode::off, 100}, {ahead_mode::ahead, 90}, {ahead_mode::outcomes, 80}});
  EXPECT_EQ(choice.mode(), ahead_mode::outcomes);
  EXPECT_LE(rounds[ahead_mode::off], 20);
  EXPECT_LE(rounds[ahead_mode::ahead], 20);
}

TEST(overlap_choice, does_not_overlap_for_less_than_the_least_gain) {
  overlap_choice choice(all);
  run(choice, 100, 1, {{ahead_mode::off, 1000}, {ahead_mode::ahead, 990}, {ahead_mode::outcomes, 995}});
  EXPECT_EQ(choice.mode(), ahead_mode::off);
}

TEST(overlap_choice, ends_a_hopeless_trial_early) {
  overlap_choice choice(all);
  auto rounds =
      run(choice, 600, 1, {{ahead_mode::off, 100}, {ahead_mode::ahead, 300}, {ahead_mode::outcomes, 300}});
  EXPECT_EQ(choice.mode(), ahead_mode::off);
  EXPECT_LE(rounds[ahead_mode::ahead], 6);
  EXPECT_LE(rounds[ahead_mode::outcomes], 6);
}

TEST(overlap_choice, tries_again_after_a_while) {
  overlap_choice choice(all);
  run(choice, 500, 1, {{ahead_mode::off, 100}, {ahead_mode::ahead, 80}, {ahead_mode::outcomes, 110}});
  ASSERT_EQ(choice.mode(), ahead_mode::ahead);
  run(choice, 1000, 1, {{ahead_mode::off, 70}, {ahead_mode::ahead, 80}, {ahead_mode::outcomes, 110}});
  EXPECT_EQ(choice.mode(), ahead_mode::off);
}

TEST(overlap_choice, tries_again_for_a_batch_of_another_size_that_stays) {
  overlap_choice choice(all);
  run(choice, 100, 1, {{ahead_mode::off, 100}, {ahead_mode::ahead, 80}, {ahead_mode::outcomes, 110}});
  const std::map<ahead_mode, int> for_four{
      {ahead_mode::off, 200}, {ahead_mode::ahead, 260}, {ahead_mode::outcomes, 300}};
  run(choice, 10, 4, for_four);
  EXPECT_EQ(choice.mode(), ahead_mode::ahead) << "a few rounds of another size change nothing";
  run(choice, 100, 4, for_four);
  EXPECT_EQ(choice.mode(), ahead_mode::off);
}

TEST(overlap_choice, does_not_mix_batches_of_two_sizes_in_one_trial) {
  overlap_choice choice({ahead_mode::off, ahead_mode::ahead});
  // A round of four takes twice as long; a mode must not be judged by the batch sizes it met.
  for (int i = 0; i < 200; ++i) {
    const bool four = choice.mode() == ahead_mode::ahead ? i % 2 == 0 : i % 5 == 0;
    choice.observe(choice.mode(), four ? 4 : 1,
                   microseconds((four ? 200 : 100) - (choice.mode() == ahead_mode::ahead ? 10 : 0)));
  }
  EXPECT_EQ(choice.mode(), ahead_mode::ahead);
}

TEST(overlap_choice, with_one_mode_has_no_choice) {
  overlap_choice choice({ahead_mode::ahead});
  run(choice, 50, 1, {{ahead_mode::ahead, 100}});
  EXPECT_EQ(choice.mode(), ahead_mode::ahead);
}

} // namespace
} // namespace paceline::scheduling
