#pragma once

// The gated delta rule over vectors of 16 columns; V is a simd_* of this folder.
#include "runtime/cpu/row_kernels.hpp"

#include <cstdint>
#include <cstring>

namespace paceline::cpu {
namespace {

/// One step of one group of columns. `q` and `k`: [key_dim]; `from`: the old state S, [key_dim][16]. Writes
/// the new state to `running`, and also to `slot` unless it is null. Returns S^T q of the new state. With
/// `streams` (`slot` not null, aligned to 64 bytes) the slot is written with non-temporal stores, so that the
/// processor need not read its cache lines first. This costs little, because
/// later rows of the pass usually read the state from `running`.
template <class V, bool streams>
typename V::vec delta_step(const float* from, float* running, float* slot, const float* q, const float* k,
                           std::uint32_t key_dim, typename V::vec v, delta_factors factors) {
  const auto decay = V::set1(factors.decay);
  typename V::vec sum[4] = {V::zero(), V::zero(), V::zero(), V::zero()};
  for (std::uint32_t i = 0; i < key_dim; i += 4)
    for (std::uint32_t p = 0; p < 4; ++p)
      sum[p] = V::fma(V::broadcast(k + i + p), V::mul(V::load(from + (i + p) * V::lanes), decay), sum[p]);
  const auto seen = V::add(V::add(sum[0], sum[1]), V::add(sum[2], sum[3]));
  const auto change = V::mul(V::set1(factors.beta), V::sub(v, seen));
  for (auto& one : sum) one = V::zero();
  for (std::uint32_t i = 0; i < key_dim; i += 4)
    for (std::uint32_t p = 0; p < 4; ++p) {
      const auto kept = V::mul(V::load(from + (i + p) * V::lanes), decay);
      const auto now = V::fma(V::broadcast(k + i + p), change, kept);
      V::store(running + (i + p) * V::lanes, now);
      if constexpr (streams)
        V::stream(slot + (i + p) * V::lanes, now);
      else if (slot != nullptr)
        V::store(slot + (i + p) * V::lanes, now);
      sum[p] = V::fma(V::broadcast(q + i + p), now, sum[p]);
    }
  return V::add(V::add(sum[0], sum[1]), V::add(sum[2], sum[3]));
}

template <class V>
void gated_delta(const device::gated_delta_args& args, const delta_unit& unit) {
  static_assert(V::lanes == device::delta_columns);
  const device::delta_heads& heads = args.heads;
  const std::size_t group_values = std::size_t{heads.key_dim} * device::delta_columns;
  const std::size_t in_slot = (std::size_t{unit.head} * heads.num_groups() + unit.group) * group_values;
  const auto slot = [&](std::int32_t number) {
    return args.states.values + static_cast<std::size_t>(number) * args.states.slot_stride + in_slot;
  };
  const std::size_t key_at = std::size_t{heads.key_of(unit.head)} * heads.key_dim;
  const std::size_t value_at = std::size_t{unit.head} * heads.value_dim + unit.group * std::size_t{V::lanes};
  const std::uint32_t columns = heads.value_dim - unit.group * V::lanes; // from this group on
  for (const device::state_step& step : unit.steps) {
    const float* const q = args.x + step.row * args.stride + key_at;
    const float* const k = q + heads.keys_size();
    const float* const v = args.x + step.row * args.stride + 2 * heads.keys_size() + value_at;
    const float* const from = step.from >= 0 ? slot(step.from) : unit.running;
    if (step.from == device::state_step::zeros) std::memset(unit.running, 0, group_values * sizeof(float));
    float* const to = step.to == device::state_step::nowhere ? nullptr : slot(step.to);
    const auto value = columns >= V::lanes ? V::load(v) : V::load_partial(v, columns);
    const bool streams = to != nullptr && reinterpret_cast<std::uintptr_t>(to) % 64 == 0;
    const auto step_of = streams ? delta_step<V, true> : delta_step<V, false>;
    const auto out = V::mul(step_of(from, unit.running, to, q, k, heads.key_dim, value,
                                    unit.factors[std::size_t{step.row} * heads.num_values + unit.head]),
                            V::set1(args.scale));
    if (step.repeated != 0) continue;
    float* const y = args.out + step.row * args.stride + value_at;
    if (columns >= V::lanes)
      V::store(y, out);
    else
      V::store_partial(y, out, columns);
  }
  V::fence(); // other threads see the non-temporal stores once the call has ended
}

} // namespace
} // namespace paceline::cpu
