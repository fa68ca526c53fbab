#pragma once

#include "gpu/kernels/expert_params.hpp"
#include "gpu/kernels/expert_segments.cuh"
#include "gpu/kernels/intrinsics.cuh"
#include "gpu/kernels/norm.cuh"

#include <cmath>
#include <limits>

// One warp selects the experts of one row. The results are those of device::route
// (runtime/device/expert_routing.hpp). "Step" below is a step in the comment of device::expert_routing.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// One of several values, and its index. The largest possible index means that there is no value.
struct candidate {
  float value = 0;
  std::uint32_t index = std::numeric_limits<std::uint32_t>::max();
};

/// True if `a` comes before `b`: larger values come first, and among equal values the lower index. NaN comes
/// after every number; a candidate without a value comes last.
PACELINE_DEVICE bool is_before(const candidate& a, const candidate& b) {
  constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  if (a.index == none || b.index == none) return b.index == none;
  if (device::routing::better(a.value, b.value)) return true;
  return !device::routing::better(b.value, a.value) && a.index < b.index;
}

/// The first value in the order of `is_before` among those with indices 0 to `count` - 1 that are not taken.
/// All lanes of the warp must call it, and all get the result. A lane calls `value` and `taken` only for
/// indices that are equal to its number modulo the size of a warp.
template <class Value, class Taken>
PACELINE_DEVICE candidate first_of(std::uint32_t count, const Value& value, const Taken& taken) {
  candidate best{};
  for (std::uint32_t i = lane_index(); i < count; i += warp_size) {
    const candidate next{value(i), i};
    if (!taken(i) && is_before(next, best)) best = next;
  }
  for (std::uint32_t mask = 1; mask < warp_size; mask *= 2) {
    const candidate other{shuffle_xor(best.value, mask), shuffle_xor_bits(best.index, mask)};
    if (is_before(other, best)) best = other;
  }
  return best;
}

/// The warp's data in shared memory (`route_shared_bytes`).
struct route_memory {
  float* scores;              ///< [num_experts]
  float* keys;                ///< [num_experts]
  std::uint32_t* taken;       ///< [num_experts]; not 0: selected already, or not in a used group
  float* group_values;        ///< [num_groups]
  std::uint32_t* group_taken; ///< [num_groups]; not 0: the group is used
  float* weights;             ///< [num_used], by slot

  PACELINE_DEVICE explicit route_memory(const device::expert_routing& by)
      : scores(shared_memory<float>()), keys(scores + by.num_experts),
        taken(reinterpret_cast<std::uint32_t*>(keys + by.num_experts)),
        group_values(keys + 2 * by.num_experts),
        group_taken(reinterpret_cast<std::uint32_t*>(group_values + by.num_groups)),
        weights(group_values + 2 * by.num_groups) {}
};

/// Step 1 for `softmax` and `sigmoid`: the scores of all experts.
PACELINE_DEVICE void score_experts(const device::expert_routing& by, const float* logits, float* scores) {
  const std::uint32_t count = by.num_experts;
  if (by.gating == device::expert_gating::sigmoid) {
    for (std::uint32_t e = lane_index(); e < count; e += warp_size)
      scores[e] = 1.0F / (1.0F + device::exp_reference(-logits[e]));
    return;
  }
  const float top =
      first_of(
          count, [&](std::uint32_t e) { return logits[e]; }, [](std::uint32_t) { return false; })
          .value;
  for (std::uint32_t e = lane_index(); e < count; e += warp_size)
    scores[e] = device::exp_reference(logits[e] - top);
  sync_warp();
  float part = 0; // the upper half of the warp does the same as the lower one
  for (std::uint32_t e = lane_index() % device::routing::lanes; e < count; e += device::routing::lanes)
    part = part + scores[e];
  const float sum = add_lanes<device::routing::lanes>(part);
  sync_warp();
  for (std::uint32_t e = lane_index(); e < count; e += warp_size) scores[e] = scores[e] / sum;
}

/// Step 1 for `softmax_of_selected`: the score of the lane's slot. Lane s < `num_used` has slot s. `logit` is
/// the logit of the slot's expert.
PACELINE_DEVICE float score_slot(std::uint32_t num_used, float logit) {
  const bool is_slot = lane_index() < num_used;
  const candidate own = is_slot ? candidate{logit, lane_index()} : candidate{};
  const float top =
      first_of(
          warp_size, [&](std::uint32_t) { return own.value; }, [&](std::uint32_t) { return !is_slot; })
          .value;
  const float exponential = is_slot ? device::exp_reference(logit - top) : 0.0F;
  const float part = exponential + shuffle_xor(exponential, device::routing::lanes);
  return exponential / add_lanes<device::routing::lanes>(part);
}

/// The part of step 2 about groups: sets `taken` for the experts of all groups that are not used.
PACELINE_DEVICE void exclude_groups(const device::expert_routing& by, const route_memory& m) {
  const std::uint32_t size = by.num_experts / by.num_groups;
  for (std::uint32_t g = lane_index(); g < by.num_groups; g += warp_size) {
    m.group_values[g] = device::routing::group_value(m.keys + g * size, size, by.groups_by_best);
    m.group_taken[g] = 0;
  }
  for (std::uint32_t n = 0; n < by.num_used_groups; ++n) {
    const std::uint32_t best = first_of(
                                   by.num_groups, [&](std::uint32_t g) { return m.group_values[g]; },
                                   [&](std::uint32_t g) { return m.group_taken[g] != 0; })
                                   .index;
    if (best % warp_size == lane_index()) m.group_taken[best] = 1;
  }
  sync_warp();
  for (std::uint32_t e = lane_index(); e < by.num_experts; e += warp_size)
    m.taken[e] = m.group_taken[e / size] == 0 ? 1 : 0;
}

/// Step 3: returns the weight of the lane's slot. `weight`: the slot's score; `weights`:
/// `route_memory::weights`.
PACELINE_DEVICE float finish_weight(const device::expert_routing& by, float weight, std::uint32_t expert,
                                    float* weights) {
  const bool is_slot = lane_index() < by.num_used;
  if (is_slot) weights[lane_index()] = weight;
  sync_warp();
  float sum = 0;
  for (std::uint32_t s = 0; s < by.num_used; ++s) sum = sum + weights[s];
  if (by.normalised) weight = weight / (sum + by.divisor_epsilon);
  weight = weight * by.scale;
  if (is_slot && by.output_scales != nullptr) weight = weight * by.output_scales[expert];
  return weight;
}

PACELINE_KERNEL route_rows(route_rows_params p) {
  begin_in_turn();
  const device::expert_routing& by = p.by;
  const route_memory m(by);
  const float* const logits = p.logits + std::size_t{block_y()} * by.num_experts;
  const bool among_selected = by.gating == device::expert_gating::softmax_of_selected;
  const bool by_score = by.gating == device::expert_gating::sigmoid && by.selection_bias != nullptr;
  if (!among_selected) score_experts(by, logits, m.scores);
  for (std::uint32_t e = lane_index(); e < by.num_experts; e += warp_size) {
    m.keys[e] = by_score ? m.scores[e] + by.selection_bias[e] : logits[e];
    m.taken[e] = 0;
  }
  sync_warp();
  if (by.num_used_groups < by.num_groups) exclude_groups(by, m);
  std::uint32_t expert = 0; // of the lane's slot
  for (std::uint32_t s = 0; s < by.num_used; ++s) {
    const std::uint32_t best = first_of(
                                   by.num_experts, [&](std::uint32_t e) { return m.keys[e]; },
                                   [&](std::uint32_t e) { return m.taken[e] != 0; })
                                   .index;
    if (best % warp_size == lane_index()) m.taken[best] = 1; // which only this lane reads
    if (s == lane_index()) expert = best;
  }
  const float score = among_selected ? score_slot(by.num_used, logits[expert]) : m.scores[expert];
  const float weight = finish_weight(by, score, expert, m.weights);
  if (lane_index() < by.num_used)
    p.used[std::size_t{block_y()} * by.num_used + lane_index()] = {static_cast<std::int32_t>(expert), weight};
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
