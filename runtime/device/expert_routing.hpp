#pragma once

#include "runtime/device/scalar_math.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <span>

namespace paceline::device {

/// Largest number of experts of a layer, and of experts that a row uses.
inline constexpr std::uint32_t max_experts = 1024;
inline constexpr std::uint32_t max_used_experts = 32;

/// How the logits of a router become scores.
enum class expert_gating : std::uint8_t {
  softmax,             ///< a probability among all experts (Qwen3, Gemma 4, DeepSeek V2)
  sigmoid,             ///< 1 / (1 + exp(-logit)) (DeepSeek V3, GLM-4.5, LFM2)
  softmax_of_selected, ///< a probability among the selected experts (gpt-oss, Granite)
};

/// How the router of a layer selects experts for a row, and how it weighs their outputs. `l[e]` is the logit
/// of expert e. All operations are in float32 and rounded once:
///
/// 1. Scores s. `sigmoid`: the formula of `expert_gating`, with `exp_reference`. `softmax`: s[e] =
/// exp_reference(l[e] - largest) / sum, where the sum has 16 parts (expert e in part e % 16, ascending) that
/// are added in halves, as in op_rms_norm.hpp. `softmax_of_selected`: as `softmax`, but over the logits of
/// the selected experts, in slot order, after step 2.
/// 2. Selection. An expert's key is s[e] + selection_bias[e] if there is a bias, else its logit (not its
/// score, because different logits can have equal scores). Experts are divided into `num_groups` groups of
/// consecutive experts, and only experts of the `num_used_groups` best groups can be selected. The value of a
/// group is the sum of its two largest keys, or with `groups_by_best` its largest key. The `num_used` experts
/// with the largest keys are selected. Slot 0 is the expert with the largest key, slot 1 the next, and so on.
/// Ties go to the lowest index; NaN is below every number.
/// 3. Weights: w = s; `normalised`: w / (sum of the w, in slot order, + divisor_epsilon); then times `scale`;
///    then times output_scales[e].
///
/// Sources: the router classes of transformers (Qwen3MoeTopKRouter, DeepseekV3TopkRouter and others).
struct expert_routing {
  std::uint32_t num_experts = 0; ///< at most max_experts; a multiple of num_groups
  /// at most max_used_experts, and at most the number of experts in the used groups
  std::uint32_t num_used = 0;
  expert_gating gating = expert_gating::softmax;
  bool normalised = false;
  float divisor_epsilon = 0;
  float scale = 1;
  std::uint32_t num_groups = 1;
  std::uint32_t num_used_groups = 1;
  bool groups_by_best = false;
  const float* selection_bias = nullptr; ///< [num_experts], device memory; only with `sigmoid`
  const float* output_scales = nullptr;  ///< [num_experts], device memory
};

/// An expert of a row and the weight of its output.
struct used_expert {
  std::int32_t index = 0;
  float weight = 0;
};

namespace routing {

inline constexpr std::uint32_t lanes = 16;

/// True if `a` > `b`, where NaN is below every number.
constexpr bool better(float a, float b) { return a > b || (std::isnan(b) && !std::isnan(a)); }

/// The largest logit; NaN only if all are NaN.
constexpr float largest(std::span<const float> logits) {
  float best = logits[0];
  for (const float l : logits)
    if (better(l, best)) best = l;
  return best;
}

/// Scores among all experts.
constexpr void score(const expert_routing& by, std::span<const float> logits, std::span<float> scores) {
  if (by.gating == expert_gating::sigmoid) {
    for (std::uint32_t e = 0; e < by.num_experts; ++e) scores[e] = 1.0F / (1.0F + exp_reference(-logits[e]));
    return;
  }
  const float top = largest(logits);
  std::array<float, lanes> sum{};
  for (std::uint32_t e = 0; e < by.num_experts; ++e)
    sum[e % lanes] += scores[e] = exp_reference(logits[e] - top);
  for (std::uint32_t half = lanes / 2; half > 0; half /= 2)
    for (std::uint32_t l = 0; l < half; ++l) sum[l] += sum[l + half];
  for (std::uint32_t e = 0; e < by.num_experts; ++e) scores[e] = scores[e] / sum[0];
}

/// The index below `count` with the largest value among those that are not taken; the lowest one if values
/// tie; `count` if all are taken.
template <class Value, class Taken>
constexpr std::uint32_t best_of(std::uint32_t count, const Value& value, const Taken& taken) {
  std::uint32_t best = count;
  for (std::uint32_t i = 0; i < count; ++i)
    if (!taken(i) && (best == count || better(value(i), value(best)))) best = i;
  return best;
}

/// Value of a group of `size` keys.
constexpr float group_value(const float* keys, std::uint32_t size, bool by_best) {
  const auto key = [&](std::uint32_t i) { return keys[i]; };
  const std::uint32_t first = best_of(size, key, [](std::uint32_t) { return false; });
  if (by_best || size == 1) return keys[first];
  const std::uint32_t second = best_of(size, key, [&](std::uint32_t i) { return i == first; });
  return keys[first] + keys[second];
}

/// Marks the experts outside the best groups as taken.
constexpr void exclude_groups(const expert_routing& by, const float* keys,
                              std::array<bool, max_experts>& taken) {
  const std::uint32_t size = by.num_experts / by.num_groups;
  std::array<bool, max_experts> used{};
  for (std::uint32_t n = 0; n < by.num_used_groups; ++n)
    used[best_of(
        by.num_groups,
        [&](std::uint32_t g) { return group_value(keys + std::size_t{g} * size, size, by.groups_by_best); },
        [&](std::uint32_t g) { return used[g]; })] = true;
  for (std::uint32_t e = 0; e < by.num_experts; ++e) taken[e] = !used[e / size];
}

} // namespace routing

/// Selects the experts of one row. logits: [num_experts]; slots: [num_used]. This code is the definition, and
/// the CPU device uses it.
constexpr void route(const expert_routing& by, std::span<const float> logits, std::span<used_expert> slots) {
  std::array<float, max_experts> scores{}, keys{};
  const bool by_score = by.gating == expert_gating::sigmoid && by.selection_bias != nullptr;
  if (by.gating != expert_gating::softmax_of_selected)
    routing::score(by, logits, std::span(scores).first(by.num_experts));
  for (std::uint32_t e = 0; e < by.num_experts; ++e) {
    keys[e] = by_score ? scores[e] + by.selection_bias[e] : logits[e];
  }
  std::array<bool, max_experts> taken{};
  if (by.num_used_groups < by.num_groups) routing::exclude_groups(by, keys.data(), taken);
  for (used_expert& slot : slots) {
    const std::uint32_t e = routing::best_of(
        by.num_experts, [&](std::uint32_t i) { return keys[i]; }, [&](std::uint32_t i) { return taken[i]; });
    taken[e] = true;
    slot = {static_cast<std::int32_t>(e), scores[e]};
  }
  if (by.gating == expert_gating::softmax_of_selected) {
    std::array<float, max_used_experts> selected{}, weights{};
    expert_routing among;
    among.num_experts = static_cast<std::uint32_t>(slots.size());
    for (std::size_t s = 0; s < slots.size(); ++s)
      selected[s] = logits[static_cast<std::size_t>(slots[s].index)];
    routing::score(among, std::span(selected).first(slots.size()), std::span(weights).first(slots.size()));
    for (std::size_t s = 0; s < slots.size(); ++s) slots[s].weight = weights[s];
  }
  float sum = 0;
  for (const used_expert& slot : slots) sum += slot.weight;
  for (used_expert& slot : slots) {
    if (by.normalised) slot.weight = slot.weight / (sum + by.divisor_epsilon);
    slot.weight = slot.weight * by.scale;
    if (by.output_scales != nullptr) slot.weight = slot.weight * by.output_scales[slot.index];
  }
}

} // namespace paceline::device
