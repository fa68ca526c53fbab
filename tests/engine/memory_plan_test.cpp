#include "engine/memory_plan.hpp"

#include "tests/support/model_drafters.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace paceline {
namespace {

/// A target and a drafter with blocks of 100 and 10 bytes, 4 blocks for a request and 16 for all.
memory_plan pools_in(std::vector<device::memory_space> spaces, std::uint32_t space_of_drafter) {
  memory_plan plan;
  plan.spaces = std::move(spaces);
  plan.pools.resize(1);
  for (const std::uint64_t bytes : {100, 10})
    plan.pools[0].push_back({.name = bytes == 100 ? "target" : "drafter",
                             .num_blocks = 16,
                             .block_size = 4,
                             .block_bytes = bytes,
                             .slab_blocks = 1,
                             .min_blocks = 4,
                             .space = bytes == 100 ? 0 : space_of_drafter});
  return plan;
}

std::vector<std::uint32_t> blocks(const memory_plan& plan) {
  std::vector<std::uint32_t> out;
  for (const auto& pool : plan.pools.at(0)) out.push_back(pool.num_blocks);
  return out;
}

TEST(memory_plan, gives_what_is_wanted_where_there_is_room) {
  const auto plan = fit_memory(pools_in({{"host", 5000, false}}, 0), 0);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->budgets, (std::vector<std::uint64_t>{1760}));
  EXPECT_EQ(blocks(*plan), (std::vector<std::uint32_t>{16, 16}));
}

TEST(memory_plan, a_request_that_the_machine_can_never_hold_is_refused_before_memory_is_taken) {
  // One request of each takes 440 bytes.
  const auto refused = fit_memory(pools_in({{"host", 200, false, 400}}, 0), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::resource_exhausted);
  EXPECT_NE(refused.error().message().find("takes 440 bytes of KV cells and states, memory of host has 400"),
            std::string::npos)
      << refused.error().message();
  EXPECT_TRUE(fit_memory(pools_in({{"host", 200, false, 440}}, 0), 0));
  EXPECT_TRUE(fit_memory(pools_in({{"host", 200, false, 400}}, 0), 500)) << "the configuration knows better";
}

TEST(memory_plan, states_take_at_most_half_of_what_the_least_blocks_leave) {
  auto wanted = pools_in({{"host", 5000, false}}, 0);
  wanted.pools[0][0].num_state_slots = 20;
  wanted.pools[0][0].min_state_slots = 3;
  wanted.pools[0][0].state_bytes = 50;
  const auto roomy = fit_memory(wanted, 0);
  ASSERT_TRUE(roomy);
  EXPECT_EQ(roomy->pools[0][0].num_state_slots, 20U);
  EXPECT_EQ(roomy->budgets, (std::vector<std::uint64_t>{1760})) << "of blocks alone";
  const auto tight = fit_memory(wanted, 1450); // 440 bytes for the minimum of blocks leave 505 for states
  ASSERT_TRUE(tight);
  EXPECT_EQ(tight->pools[0][0].num_state_slots, 10U);
  EXPECT_EQ(tight->budgets, (std::vector<std::uint64_t>{950}));
  const auto least = fit_memory(wanted, 590);
  ASSERT_TRUE(least);
  EXPECT_EQ(least->pools[0][0].num_state_slots, 3U);
  EXPECT_EQ(least->budgets, (std::vector<std::uint64_t>{440}));
  const auto too_little = fit_memory(wanted, 589);
  ASSERT_FALSE(too_little);
  EXPECT_NE(too_little.error().message().find("590"), std::string::npos) << too_little.error().message();
}

TEST(memory_plan, pools_that_lend_may_each_grow_to_the_budget) {
  const auto plan = fit_memory(pools_in({{"host", 1000, false}}, 0), 0);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->budgets, (std::vector<std::uint64_t>{1000}));
  EXPECT_EQ(blocks(*plan), (std::vector<std::uint32_t>{10, 16}));
}

TEST(memory_plan, memory_that_is_taken_whole_is_never_promised_twice) {
  for (const std::uint64_t budget : {440, 441, 660, 999, 1100, 1759, 1760, 5000}) {
    const auto plan = fit_memory(pools_in({{"cuda:0", budget, true}}, 0), 0);
    ASSERT_TRUE(plan);
    const auto num = blocks(*plan);
    EXPECT_LE(num[0] * 100 + num[1] * 10, budget);
    EXPECT_GE(num[0], 4U);
    EXPECT_EQ(num[0], num[1]) << "shares as they wanted";
    EXPECT_GT((num[0] + 1) * 110, std::min<std::uint64_t>(budget, 1760)) << "nothing is left lying";
  }
}

TEST(memory_plan, each_space_has_a_budget) {
  const auto wanted = pools_in({{"cuda:0", 800, true}, {"host", 100, false}}, 1);
  const auto automatic = fit_memory(wanted, 0);
  ASSERT_TRUE(automatic);
  EXPECT_EQ(automatic->budgets, (std::vector<std::uint64_t>{800, 100}));
  EXPECT_EQ(blocks(*automatic), (std::vector<std::uint32_t>{8, 10}));
  const auto configured = fit_memory(wanted, 500);
  ASSERT_TRUE(configured);
  EXPECT_EQ(configured->budgets, (std::vector<std::uint64_t>{500, 500}));
  EXPECT_EQ(blocks(*configured), (std::vector<std::uint32_t>{5, 16}));
}

TEST(memory_plan, says_what_one_request_takes_and_where) {
  const auto wanted = pools_in({{"host", 1, false}, {"cuda:0", 1, true}}, 1);
  EXPECT_TRUE(fit_memory(wanted, 0)) << "of itself it takes what it must";
  const auto refused = fit_memory(wanted, 399);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::resource_exhausted);
  EXPECT_EQ(refused.error().message(), "engine.memory_budget: 399 bytes in memory of host do not hold one "
                                       "request of full length a model; it takes "
                                       "400 bytes, or a smaller context_length");
}

/// The needs of the pools of a hash model with a context of 512 tokens and these drafters. (Names are those
/// of `model_drafter_parts`; drafters have a context of `own_context`.)
std::vector<pool_need> needs_with(std::initializer_list<const char*> drafters, std::uint32_t own_context,
                                  std::uint32_t num_guesses = 0) {
  config::model_options model;
  model.name = model.kind = "hash";
  model.context_length = 512;
  model.block_size = 16;
  model.max_running = 4;
  auto registry = speculation::drafter_registry::with_built_in();
  for (const std::string name : drafters) {
    registry.add(name, [=](const auto& parts) -> expected<std::unique_ptr<speculation::drafter>> {
      auto made = test::model_drafter_parts(
          name, {.vocab_size = parts.target->info().vocab_size, .context_length = own_context});
      made.options.draft_length = 3;
      return speculation::drafter_registry::with_built_in().make(made);
    });
    config::drafter_options drafter;
    drafter.name = drafter.kind = name;
    drafter.draft_length = 3;
    model.drafters.push_back(std::move(drafter));
  }
  auto devices = device_set::make({.partitions = {{}}, .level = {}});
  auto unit = model_unit::load(model, *devices, registry, {});
  EXPECT_TRUE(unit) << unit.error().message();
  if (!unit) return {};
  (*unit)->num_guesses = num_guesses;
  return (*unit)->pool_needs();
}

TEST(pool_needs, of_a_drafter_end_with_its_own_context) {
  const auto needs = needs_with({"model", "head", "head_path_static"}, 100);
  ASSERT_EQ(needs.size(), 4U);
  EXPECT_EQ(needs[0].least_blocks, 32U);
  EXPECT_EQ(needs[1].least_blocks, (100U + 64 + 15) / 16) << "and a draft behind the text";
  EXPECT_EQ(needs[1].wanted_blocks, 4 * needs[1].least_blocks);
  EXPECT_EQ(needs[2].least_blocks, needs[1].least_blocks);
  EXPECT_LT(needs[3].least_blocks, 32U) << "it caches no text";
  for (const auto& need : needs_with({"model", "head"}, 4096)) EXPECT_EQ(need.least_blocks, 32U);
}

TEST(pool_needs, have_blocks_for_drafts_in_advance_if_the_drafter_makes_them) {
  const auto needs = needs_with({"model", "head"}, 512, 2);
  ASSERT_EQ(needs.size(), 3U);
  EXPECT_EQ(needs[1].wanted_blocks, 4 * (32 + scheduling::spare_blocks(3, 2, 16)));
  EXPECT_EQ(needs[2].wanted_blocks, 4U * 32);
}

} // namespace
} // namespace paceline
