#pragma once

#include "runtime/device/row_batch.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::device {

/// Number of columns of a recurrent matrix that are adjacent in memory.
inline constexpr std::uint32_t delta_columns = 16;
/// Largest number of values of a key head.
inline constexpr std::uint32_t max_delta_keys = 256;

/// Heads of a layer with a gated delta rule.
struct delta_heads {
  std::uint32_t num_keys = 0;   ///< key heads; there are as many query heads
  std::uint32_t num_values = 0; ///< value heads; a multiple of num_keys
  std::uint32_t key_dim = 0;    ///< floats of a key, a multiple of 4 and at most max_delta_keys
  std::uint32_t value_dim = 0;  ///< floats of a value
  /// Which key head value head h reads: h mod num_keys if true, else h / (num_values / num_keys). Files have
  /// value heads in either order.
  bool tiled = false;

  constexpr std::uint32_t key_of(std::uint32_t value_head) const noexcept {
    return tiled ? value_head % num_keys : value_head / (num_values / num_keys);
  }
  constexpr std::uint32_t num_groups() const noexcept {
    return (value_dim + delta_columns - 1) / delta_columns;
  }
  /// Number of floats of a row's keys (its queries have as many), and of a row's values.
  constexpr std::size_t keys_size() const noexcept { return std::size_t{num_keys} * key_dim; }
  constexpr std::size_t values_size() const noexcept { return std::size_t{num_values} * value_dim; }
  /// Floats of a layer's state.
  constexpr std::size_t state_values() const noexcept {
    return std::size_t{num_values} * num_groups() * key_dim * delta_columns;
  }
};

/// Recurrent matrices in the slots of a state. A head has groups of 16 columns, each of which is
/// [key_dim][16]; the columns after value_dim are 0.
struct delta_states {
  float* values = nullptr;     ///< device memory: slot s has [num_values][num_groups][key_dim][16] at
                               ///< s * slot_stride
  std::size_t slot_stride = 0; ///< floats from one slot to the next
  std::uint32_t num_slots = 0;
};

/// A gated delta rule in place of attention. Each value head h has a matrix S of key_dim rows and value_dim
/// columns, 0 before a text's first row. A row with query q, key k (both of head key_of(h)) and value v gives
///
///     w = exp(decay[h] * softplus(alpha[h] + dt_bias[h]))      b = sigmoid(beta[h])
///     S = w * S;   d = b * (v - S^T k);   S = S + k d^T;   out = (S^T q) * scale
///
/// Rounding, for each column j: a sum over the elements i of a key is divided into four sums, by i mod 4.
/// Each of these is a chain of fused multiply-adds from 0 in ascending order; they are added as (s0 + s1) +
/// (s2 + s3). S^T k uses w * S, rounded; S + k d is one fused multiply-add for each element. Exponentials are
/// exp_reference, softplus is softplus_reference. So a row's result and state have the same bits in any pass
/// and with any other rows. No form of the rule that computes several rows at once is used.
///
/// A row continues the state of its parent in this pass, or the state in slot `read`, and leaves its own
/// state in slot `write` (runtime/device/state_plan.hpp).
///
/// Sources: Gated Delta Networks (arXiv:2412.06464), equation 10; transformers' `Qwen3_5GatedDeltaNet`. In
/// that model queries and keys are L2-normalised before this op.
struct gated_delta_args {
  std::span<const row_state> rows; ///< host memory, [num_rows]; parents come before their children
  delta_heads heads;
  const float* x = nullptr;       ///< [num_rows][2 * keys_size + values_size]: queries, keys, values
  const float* beta = nullptr;    ///< [num_rows][num_values]
  const float* alpha = nullptr;   ///< [num_rows][num_values]
  float* out = nullptr;           ///< [num_rows][values_size]; must not overlap the other arguments
  std::size_t stride = 0;         ///< values from a row to the next, in x, beta, alpha and out
  const float* decay = nullptr;   ///< device memory, [num_values]; not above 0
  const float* dt_bias = nullptr; ///< device memory, [num_values]
  float scale = 1;
  delta_states states;
};

} // namespace paceline::device
