#include "runtime/sampling/token_mask.hpp"

#include "runtime/sampling/pipeline.hpp"
#include "tests/support/cycle_constraint.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace paceline::sampling {
namespace {

TEST(token_mask, keeps_what_its_bits_allow) {
  std::mt19937 random(1);
  for (const std::size_t size : {1U, 31U, 32U, 33U, 64U, 200U, 1000U})
    for (int round = 0; round < 20; ++round) {
      std::vector<std::uint32_t> mask((size + 31) / 32 - (round % 3 == 2 && size > 32 ? 1 : 0));
      for (auto& word : mask) word = random() % 3 == 0 ? 0 : random() % 2 == 0 ? 0xFFFFFFFFU : random();
      std::vector<float> row(size);
      for (auto& logit : row) logit = static_cast<float>(random() % 100);
      const auto before = row;
      apply_mask(mask, row);
      for (std::size_t i = 0; i < size; ++i) {
        const bool allowed = i / 32 < mask.size() && (mask[i / 32] >> i % 32 & 1U) != 0;
        ASSERT_EQ(row[i], allowed ? before[i] : -std::numeric_limits<float>::infinity())
            << i << " of " << size;
      }
    }
}

TEST(token_mask, a_row_depends_on_the_output_and_the_draft_path) {
  const auto constraint = test::make_cycle_constraint(50);
  const auto cursor = constraint->begin();
  const pipeline greedy({.temperature = 0}, {});
  const std::vector<token_id> output{token_id{1}, token_id{4}};
  const std::vector<token_id> path{token_id{9}};
  const auto chosen = [&](std::span<const token_id> draft_path) {
    std::vector<float> logits(50);
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i);
    return greedy
        .choose(logits,
                {.draft_path = draft_path, .output_index = 2, .constraint = cursor.get(), .output = output})
        .token.value;
  };
  EXPECT_EQ(chosen({}), 48) << "place 2 takes no token that is 1 modulo 3";
  EXPECT_EQ(chosen(path), 21) << "place 3 takes a single one";
  EXPECT_EQ(chosen({}), 48) << "and back";
}

TEST(token_mask, a_row_without_allowed_tokens_is_hopeless) {
  const auto constraint = test::make_cycle_constraint(50);
  const auto cursor = constraint->begin();
  const std::vector<token_id> broken{token_id{0}}; // place 0 takes no multiple of 3
  for (const float temperature : {0.0F, 1.0F}) {
    std::vector<float> logits(50, 1.0F);
    EXPECT_TRUE(pipeline({.temperature = temperature}, {})
                    .choose(logits, {.output_index = 1, .constraint = cursor.get(), .output = broken})
                    .hopeless);
  }
}

TEST(token_mask, devices_do_not_make_it) {
  const auto cursor = test::make_cycle_constraint(50)->begin();
  std::vector<device::penalised_token> counts;
  EXPECT_TRUE(pipeline({.temperature = 0}, {}).settings_for_device({}, 50, counts));
  EXPECT_FALSE(
      pipeline({.temperature = 0}, {}).settings_for_device({.constraint = cursor.get()}, 50, counts));
}

} // namespace
} // namespace paceline::sampling
