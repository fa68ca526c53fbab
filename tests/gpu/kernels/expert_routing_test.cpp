// A GPU selects the experts of runtime/device/expert_routing.hpp with the same weights, to the bit.
#include "gpu/kernels/expert_params.hpp"
#include "gpu/owners.hpp"
#include "tests/gpu/tested_device.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace paceline::gpu {
namespace {

using device::expert_gating;
using device::expert_routing;

class gpu_routing : public gpu_test {
 protected:
  /// Compares the slots of all rows of `logits`, whose routing has the host's arrays.
  void expect_same(const expert_routing& by, const std::vector<float>& logits, const std::string& what) {
    const auto num_rows = static_cast<std::uint32_t>(logits.size() / by.num_experts);
    route_rows_params params{upload(logits), by, nullptr};
    const auto there = [&](const float* values) {
      return values != nullptr ? upload(std::vector<float>(values, values + by.num_experts)) : nullptr;
    };
    params.by.selection_bias = there(by.selection_bias);
    params.by.output_scales = there(by.output_scales);
    params.used = upload(std::vector<device::used_expert>(std::size_t{num_rows} * by.num_used));
    launch(kernel_id::route_rows, {1, num_rows, 32, route_shared_bytes(by)}, params);
    const auto words = download(reinterpret_cast<const std::uint32_t*>(params.used),
                                std::size_t{2} * num_rows * by.num_used);
    std::vector<device::used_expert> expected(by.num_used);
    for (std::uint32_t r = 0; r < num_rows; ++r) {
      device::route(by, std::span(logits).subspan(r * by.num_experts, by.num_experts), expected);
      for (std::uint32_t s = 0; s < by.num_used; ++s) {
        const std::size_t at = std::size_t{2} * (r * by.num_used + s);
        const device::used_expert want = expected[s], have{static_cast<std::int32_t>(words[at]),
                                                           std::bit_cast<float>(words[at + 1])};
        ASSERT_EQ(have.index, want.index) << what << ", row " << r << ", slot " << s;
        ASSERT_TRUE(bits(have.weight) == bits(want.weight) ||
                    (std::isnan(have.weight) && std::isnan(want.weight)))
            << what << ", row " << r << ", slot " << s << ": " << have.weight << ", not " << want.weight;
      }
    }
  }

  template <class Params>
  void launch(kernel_id kernel, const launch_shape& shape, const Params& params) {
    const device_context on{*tested_runtime(), 0, "cuda:0"};
    on.require(on.api.use(0), "cudaSetDevice");
    command_queue queue(on, 0);
    queue.launch(kernel, shape, &params, sizeof params);
    event done(on);
    done.record(queue);
    done.wait();
  }

  /// Rows of logits: ordinary, of few values with many ties, all equal, and with values that are not finite.
  std::vector<float> logits(std::uint32_t num_experts) {
    std::vector<float> out = values(std::size_t{4} * num_experts, 2);
    const auto last = out.size() - num_experts;
    for (std::uint32_t e = 0; e < num_experts; ++e) {
      out[num_experts + e] =
          static_cast<float>(static_cast<int>(random_() % 5) - 2) * (e % 3 == 0 ? -1.0F : 1.0F);
      out[2 * num_experts + e] = e % 2 == 0 ? 0.0F : -0.0F;
      constexpr float infinite = std::numeric_limits<float>::infinity();
      const std::uint32_t kind = random_() % 4;
      if (kind == 0) out[last + e] = std::numeric_limits<float>::quiet_NaN();
      if (kind == 1) out[last + e] = -infinite;
      if (kind == 2 && e % 7 == 0) out[last + e] = infinite;
    }
    return out;
  }

  static std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }
};

TEST_F(gpu_routing, selects_and_weighs_as_defined_for_all_gatings_and_numbers_of_experts) {
  for (const auto gating :
       {expert_gating::softmax, expert_gating::sigmoid, expert_gating::softmax_of_selected}) {
    for (const auto& [num_experts, num_used] : {std::pair{1U, 1U},
                                                {3U, 2U},
                                                {16U, 16U},
                                                {31U, 4U},
                                                {32U, 32U},
                                                {33U, 8U},
                                                {128U, 8U},
                                                {1024U, 31U}}) {
      expert_routing by;
      by.num_experts = num_experts;
      by.num_used = num_used;
      by.gating = gating;
      const std::string what = std::to_string(num_used) + " of " + std::to_string(num_experts) + ", gating " +
                               std::to_string(static_cast<int>(gating));
      ASSERT_NO_FATAL_FAILURE(expect_same(by, logits(num_experts), what));
      by.normalised = true;
      by.divisor_epsilon = 1e-3F;
      by.scale = 2.5F;
      const auto scales = values(num_experts);
      by.output_scales = scales.data();
      ASSERT_NO_FATAL_FAILURE(expect_same(by, logits(num_experts), what + ", scaled"));
    }
  }
}

TEST_F(gpu_routing, selects_by_bias_and_among_the_best_groups) {
  for (const auto& [num_experts, num_groups, num_used_groups, num_used] :
       {std::tuple(8U, 8U, 3U, 3U), std::tuple(12U, 4U, 2U, 5U), std::tuple(256U, 8U, 4U, 8U),
        std::tuple(1024U, 64U, 40U, 32U), std::tuple(40U, 2U, 1U, 20U)}) {
    for (const bool by_best : {false, true}) {
      for (const bool biased : {false, true}) {
        expert_routing by;
        by.num_experts = num_experts;
        by.num_used = num_used;
        by.gating = biased ? expert_gating::sigmoid : expert_gating::softmax;
        by.num_groups = num_groups;
        by.num_used_groups = num_used_groups;
        by.groups_by_best = by_best;
        const auto bias = values(num_experts, 0.5F);
        if (biased) by.selection_bias = bias.data();
        ASSERT_NO_FATAL_FAILURE(expect_same(by, logits(num_experts),
                                            std::to_string(num_experts) + " experts in " +
                                                std::to_string(num_groups) + " groups"));
      }
    }
  }
}

TEST_F(gpu_routing, sorts_pairs_by_expert) {
  for (const auto& [num_experts, num_pairs] :
       {std::pair{1U, 5U}, {6U, 1U}, {7U, 100U}, {128U, 64U}, {1024U, 333U}}) {
    std::vector<device::used_expert> used(num_pairs);
    for (auto& one : used) one.index = static_cast<std::int32_t>(random_() % num_experts);
    const sort_pairs_params params{upload(used), num_pairs, num_experts,
                                   upload(std::vector<std::uint32_t>(num_pairs, 77777U)),
                                   upload(std::vector<std::uint32_t>(num_experts, 77777U))};
    launch(kernel_id::sort_pairs, {(num_experts + sort_warps - 1) / sort_warps, 1, sort_warps * 32, 0},
           params);
    const auto order = download(params.order, num_pairs), counts = download(params.counts, num_experts);
    std::vector<bool> seen(num_pairs);
    std::size_t place = 0;
    for (std::uint32_t e = 0; e < num_experts; ++e) {
      for (std::uint32_t i = 0; i < counts[e]; ++i) {
        ASSERT_LT(place, order.size());
        const std::uint32_t pair = order[place++];
        ASSERT_LT(pair, num_pairs);
        EXPECT_EQ(used[pair].index, static_cast<std::int32_t>(e));
        EXPECT_FALSE(seen[pair]);
        seen[pair] = true;
      }
    }
    EXPECT_EQ(place, num_pairs);
  }
}

TEST(expert_segments, are_bounded_by_what_all_experts_can_need) {
  // The most segments that some division of the pairs among the experts needs.
  const auto needed = [](std::uint32_t num_pairs, std::uint32_t num_experts, std::uint32_t most) {
    std::uint32_t segments = 0;
    for (std::uint32_t e = 0; e < num_experts && num_pairs > 0; ++e, --num_pairs) ++segments;
    return segments + num_pairs / most; // a pair each, and whole segments behind them
  };
  for (std::uint32_t num_pairs = 1; num_pairs < 200; num_pairs += 3)
    for (const std::uint32_t num_experts : {1U, 2U, 17U, 128U})
      for (const std::uint32_t most : {4U, 8U, 64U}) {
        EXPECT_GE(most_segments(num_pairs, num_experts, most), needed(num_pairs, num_experts, most));
        EXPECT_LE(most_segments(num_pairs, num_experts, most), num_pairs);
      }
}

} // namespace
} // namespace paceline::gpu
