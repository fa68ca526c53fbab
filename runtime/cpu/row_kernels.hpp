#pragma once

#include "runtime/device/op_attention.hpp"
#include "runtime/device/op_gated_delta.hpp"
#include "runtime/device/op_glu.hpp"
#include "runtime/device/op_kv.hpp"
#include "runtime/device/op_rms_norm.hpp"
#include "runtime/device/op_rope.hpp"
#include "runtime/device/state_plan.hpp"

#include <cstdint>
#include <span>

namespace paceline::cpu {

/// A half-open range of rows (or splits) for one call.
struct row_range {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// The part of an attention op that one call computes: the query heads [head_begin, head_end), all of one
/// key-value head, of the rows [rows.begin, rows.end), all of one sequence. (rows) * (heads) <=
/// attention_unit_queries.
struct attention_unit {
  row_range rows;
  std::uint32_t head_begin = 0;
  std::uint32_t head_end = 0;
};
inline constexpr std::uint32_t attention_unit_queries = 12;

/// Separate results for the splits of an attention op, so that several threads can share a row. With i =
/// index(r, num_heads, h, s), split s of row r and query head h has its maximum at max[i], its sum at sum[i]
/// and its `acc_stride` weighted values from acc[i * acc_stride] on. Entries for splits that a row does not
/// see are neither written nor read.
struct attention_parts {
  float* max = nullptr;
  float* sum = nullptr;
  float* acc = nullptr;
  std::uint32_t num_splits = 0;
  std::uint32_t acc_stride = 0; ///< head_dim rounded up to a multiple of 16

  std::size_t index(std::uint32_t row, std::uint32_t num_heads, std::uint32_t head,
                    std::uint32_t split) const noexcept {
    return (std::size_t{row} * num_heads + head) * num_splits + split;
  }
};

/// The factors of a gated delta rule for one head of one row: w and b in op_gated_delta.hpp.
struct delta_factors {
  float decay = 1;
  float beta = 0;
};

/// The part of a gated delta rule that one call computes: a group of columns of one head's state, for the
/// rows of one text (device::state_plan).
struct delta_unit {
  std::span<const device::state_step> steps;
  std::uint32_t head = 0; ///< value head
  std::uint32_t group = 0;
  const delta_factors* factors = nullptr; ///< [num_rows][num_values]
  /// Memory of the caller, [key_dim][16], for the newest state of the group. SIMD kernels write the state of
  /// every step here; the reference writes only states that no slot keeps.
  float* running = nullptr;
};

/// The ops other than matrix products, at one kernel level. Levels agree to the bit; `reference_row_kernels`
/// is the definition. The functions access only their arguments and may run on any thread.
struct row_kernels {
  void (*rms_norm)(const device::rms_norm_args&, row_range);
  void (*rope)(const device::rope_args&, row_range);
  void (*glu)(const device::glu_args&, row_range);
  void (*kv_write)(const device::kv_write_args&, row_range);
  void (*attention)(const device::attention_args&, const attention_unit&);
  /// Computes the splits [splits.begin, splits.end) of a unit's rows into the parts.
  void (*attention_splits)(const device::attention_args&, const attention_unit&, row_range splits,
                           const attention_parts&);
  /// Computes the outputs of all heads of the rows from the parts of all splits that they see.
  void (*merge_splits)(const device::attention_args&, row_range, const attention_parts&);
  void (*gated_delta)(const device::gated_delta_args&, const delta_unit&);
};

const row_kernels& reference_row_kernels() noexcept;
const row_kernels& avx2_row_kernels() noexcept;   ///< call only if the CPU has AVX2, FMA and F16C
const row_kernels& avx512_row_kernels() noexcept; ///< call only if the CPU has AVX-512 F, BW, VL, DQ

} // namespace paceline::cpu
