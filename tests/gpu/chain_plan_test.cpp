// Launches of a pass as stages of one launch: which blocks run them, and their dependencies.
#include "gpu/chain_plan.hpp"

#include "gpu/emulation/emulated_runtime.hpp"
#include "gpu/kernels/split_attention_params.hpp"

#include <gtest/gtest.h>

namespace paceline::gpu {
namespace {

/// A pass whose launches are recorded one by one.
class chain_plans : public testing::Test {
 protected:
  chain_plans() { steps_.begin_recording(); }

  /// A launch with this number of blocks, of elementwise work or of a product.
  void rows(std::uint32_t blocks, bool beside = false, std::uint32_t threads = 128) {
    if (threads == 32)
      steps_.launch(kernel_id::rms_norm, {blocks, 1, threads, 0}, rms_norm_params{}, beside);
    else
      steps_.launch(kernel_id::rope, {blocks, 1, threads, 100}, rope_params{}, beside);
  }
  void product(std::uint32_t blocks, std::uint32_t splits = 1, bool beside = false) {
    streamed_params params{};
    params.x.num_tiles = 1;
    steps_.launch(kernel_id::stream_q4_0, {blocks, splits, 128, 1000}, params, beside);
  }
  expected<chain_plan> plan() { return plan_chain(steps_.end_recording()); }
  /// The stages, one letter each: s, small, without a barrier; S, small, after a barrier; b and B, on all
  /// blocks.
  std::string waits() {
    std::string out;
    const auto planned = plan();
    for (const chain_stage& stage : planned->stages)
      out += stage.is_small ? (stage.waits ? 'S' : 's') : (stage.waits ? 'B' : 'b');
    return out;
  }

  emulation::emulated_runtime runtime_;
  device_context on_{runtime_, 0, "cuda:0"};
  command_queue queue_{on_, 0};
  step_queue steps_{queue_};
};

TEST_F(chain_plans, what_follows_other_blocks_work_waits_for_it) {
  rows(1), rows(1), product(40), rows(2), rows(1), product(1), product(3), rows(3), rows(2);
  EXPECT_EQ(waits(), "ssBSsBBBS");
}

TEST_F(chain_plans, products_side_by_side_do_not_wait_and_what_follows_waits_for_all) {
  rows(1), product(14), product(2, 1, true), rows(2), rows(1, true), rows(2);
  EXPECT_EQ(waits(), "sBbSss");
}

TEST_F(chain_plans, a_small_stage_beside_a_large_one_is_no_sign_that_the_large_one_is_done) {
  rows(1), product(14), rows(20), rows(1, true), rows(2);
  EXPECT_EQ(waits(), "sBBsS");
}

TEST_F(chain_plans, warps_are_small_blocks) {
  rows(8, false, 32), rows(9, false, 32);
  const auto made = *plan();
  EXPECT_TRUE(made.stages[0].by_warps && made.stages[0].is_small);
  EXPECT_TRUE(made.stages[1].by_warps && !made.stages[1].is_small);
  EXPECT_TRUE(made.waits_at_end());
}

TEST_F(chain_plans, stages_have_the_grid_and_the_params_of_their_launches) {
  add_splits_params sums{};
  sums.num_outputs = 77;
  steps_.launch(kernel_id::add_splits, {3, 8, 128, 0}, sums);
  product(5, 4);
  const auto made = *plan();
  EXPECT_EQ(made.stages[0].kernel, kernel_id::add_splits);
  EXPECT_EQ(made.stages[0].blocks_x, 3U);
  EXPECT_EQ(made.stages[0].num_blocks, 24U);
  EXPECT_EQ(reinterpret_cast<const add_splits_params*>(made.stages[0].params)->num_outputs, 77U);
  EXPECT_EQ(made.stages[1].num_blocks, 20U);
  EXPECT_EQ(made.most_blocks, 24U);
  EXPECT_EQ(made.shared_bytes, 1008U) << "whole quads";
  EXPECT_EQ(made.all_shared_bytes(), 1008U + 1024U);
}

TEST_F(chain_plans, each_stage_begins_at_the_block_where_the_one_before_ended) {
  product(3), rows(2), product(4), product(1);
  auto made = *plan();
  spread(made, 5);
  EXPECT_EQ(made.stages[0].first_block, 0U);
  EXPECT_EQ(made.stages[2].first_block, 3U);
  EXPECT_EQ(made.stages[3].first_block, 2U);
}

TEST_F(chain_plans, what_is_no_stage_is_refused_with_the_reason) {
  const auto refused = [&](const char* reason) {
    const auto made = plan();
    steps_.begin_recording();
    if (made) return testing::AssertionFailure() << "not refused";
    EXPECT_EQ(made.error().code(), errc::unsupported);
    return made.error().message().find(reason) != std::string::npos
               ? testing::AssertionSuccess()
               : testing::AssertionFailure() << made.error().message();
  };
  EXPECT_TRUE(refused("nothing"));
  steps_.launch(kernel_id::matmul_quantised, {1, 1, 128, 0}, matmul_params{});
  EXPECT_TRUE(refused("not streamed"));
  streamed_params many{};
  many.x.num_tiles = 2;
  steps_.launch(kernel_id::stream_f16, {1, 1, 128, 0}, many);
  EXPECT_TRUE(refused("rows"));
  attend_params wide{};
  wide.queries_of_tile = 16;
  steps_.launch(kernel_id::attend_f16, {1, 1, 128, 0}, wide);
  EXPECT_TRUE(refused("8 query heads"));
  steps_.launch(kernel_id::rope, {1, 1, 64, 0}, rope_params{});
  EXPECT_TRUE(refused("64 threads"));
  memory there(on_, memory_kind::on_device, 64), here(on_, memory_kind::pinned, 64);
  rows(1);
  steps_.copy_out(here.data(), there.data(), 64);
  EXPECT_TRUE(refused("host"));
}

} // namespace
} // namespace paceline::gpu
