#include "runtime/scheduling/overlap_choice.hpp"

#include <gtest/gtest.h>

#include <map>

namespace paceline::scheduling {
namespace {

using std::chrono::microseconds;

/// Rounds of `num_requests` whose periods the modes decide; returns how many ran in which mode.
std::map<foresight, int> run(overlap_choice& choice, int num_rounds, std::uint32_t num_requests,
                             std::map<foresight, int> periods) {
  std::map<foresight, int> rounds;
  for (int i = 0; i < num_rounds; ++i) {
    const auto mode = choice.mode();
    ++rounds[mode];
    choice.observe(mode, num_requests, microseconds(periods.at(mode)));
  }
  return rounds;
}

const std::vector all{foresight::off, foresight::ahead, foresight::outcomes};

TEST(overlap_choice, tries_every_mode_and_stays_with_the_fastest) {
  overlap_choice choice(all);
  auto rounds =
      run(choice, 600, 1, {{foresight::off, 100}, {foresight::ahead, 90}, {foresight::outcomes, 80}});
  EXPECT_EQ(choice.mode(), foresight::outcomes);
  EXPECT_LE(rounds[foresight::off], 20);
  EXPECT_LE(rounds[foresight::ahead], 20);
}

TEST(overlap_choice, does_not_overlap_for_less_than_the_least_gain) {
  overlap_choice choice(all);
  run(choice, 100, 1, {{foresight::off, 1000}, {foresight::ahead, 990}, {foresight::outcomes, 995}});
  EXPECT_EQ(choice.mode(), foresight::off);
}

TEST(overlap_choice, ends_a_hopeless_trial_early) {
  overlap_choice choice(all);
  auto rounds =
      run(choice, 600, 1, {{foresight::off, 100}, {foresight::ahead, 300}, {foresight::outcomes, 300}});
  EXPECT_EQ(choice.mode(), foresight::off);
  EXPECT_LE(rounds[foresight::ahead], 6);
  EXPECT_LE(rounds[foresight::outcomes], 6);
}

TEST(overlap_choice, tries_again_after_a_while) {
  overlap_choice choice(all);
  run(choice, 500, 1, {{foresight::off, 100}, {foresight::ahead, 80}, {foresight::outcomes, 110}});
  ASSERT_EQ(choice.mode(), foresight::ahead);
  run(choice, 1000, 1, {{foresight::off, 70}, {foresight::ahead, 80}, {foresight::outcomes, 110}});
  EXPECT_EQ(choice.mode(), foresight::off);
}

TEST(overlap_choice, tries_again_for_a_batch_of_another_size_that_stays) {
  overlap_choice choice(all);
  run(choice, 100, 1, {{foresight::off, 100}, {foresight::ahead, 80}, {foresight::outcomes, 110}});
  const std::map<foresight, int> for_four{
      {foresight::off, 200}, {foresight::ahead, 260}, {foresight::outcomes, 300}};
  run(choice, 10, 4, for_four);
  EXPECT_EQ(choice.mode(), foresight::ahead) << "a few rounds of another size change nothing";
  run(choice, 100, 4, for_four);
  EXPECT_EQ(choice.mode(), foresight::off);
}

TEST(overlap_choice, does_not_mix_batches_of_two_sizes_in_one_trial) {
  overlap_choice choice({foresight::off, foresight::ahead});
  for (int i = 0; i < 200; ++i) { // a round of four is twice as long; a mode would seem slow for what it met
    const bool four = choice.mode() == foresight::ahead ? i % 2 == 0 : i % 5 == 0;
    choice.observe(choice.mode(), four ? 4 : 1,
                   microseconds((four ? 200 : 100) - (choice.mode() == foresight::ahead ? 10 : 0)));
  }
  EXPECT_EQ(choice.mode(), foresight::ahead);
}

TEST(overlap_choice, with_one_mode_has_no_choice) {
  overlap_choice choice({foresight::ahead});
  run(choice, 50, 1, {{foresight::ahead, 100}});
  EXPECT_EQ(choice.mode(), foresight::ahead);
}

} // namespace
} // namespace paceline::scheduling
