#pragma once

#include "gpu/kernels/intrinsics.cuh"
#include "gpu/kernels/params.hpp"
#include "gpu/kernels/weight_block.cuh"

#include <cmath>
#include <limits>

// Products as defined in runtime/device/op_matmul.hpp. The sum of an output runs over its blocks of columns
// in ascending order, one fused product at a time, whatever the number of rows. Only the integer sums of the
// blocks, and different outputs and rows, are computed in parallel.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// Quantises one plane of one block of 32 activations: writes codes to `q` and their sums to `sums`, and
/// leaves the remainder in `x`. Returns the scale.
PACELINE_DEVICE float quantise_block(float (&x)[32], std::int8_t* q, std::int16_t* sums) {
  float largest = 0;
  bool finite = true;
  for (std::uint32_t i = 0; i < 32; ++i) {
    finite = finite && std::isfinite(x[i]);
    largest = std::fmax(largest, std::fabs(x[i]));
  }
  const bool usable = finite && largest >= 0x1p-100F;
  const float scale = usable ? largest / 127.0F : finite ? 0.0F : std::numeric_limits<float>::quiet_NaN();
  const float inverse = usable ? 127.0F / largest : 0.0F;
  std::int32_t sum[2] = {0, 0};
  for (std::uint32_t i = 0; i < 32; ++i) {
    const float code = usable ? std::nearbyint(x[i] * inverse) : 0.0F;
    q[i] = static_cast<std::int8_t>(code);
    sum[i / 16] += static_cast<std::int32_t>(code);
    x[i] = std::fma(-scale, code, x[i]);
  }
  sums[0] = static_cast<std::int16_t>(sum[0]);
  sums[1] = static_cast<std::int16_t>(sum[1]);
  return scale;
}

PACELINE_KERNEL quantise_rows(quantise_rows_params p) {
  begin_in_turn();
  const std::uint32_t num_blocks = p.num_cols / quantised_block;
  const std::uint32_t b = own_place().index_in_row();
  if (b >= num_blocks) return;
  float x[32];
  for (std::uint32_t i = 0; i < 32; ++i) x[i] = p.x[block_y() * p.x_stride + b * 32 + i];
  for (std::uint32_t plane = 0; plane < p.num_planes; ++plane) {
    const std::size_t row = std::size_t{block_y()} * p.num_planes + plane;
    p.out.scales[row * num_blocks + b] =
        quantise_block(x, p.out.codes + row * p.num_cols + b * 32, p.out.sums + (row * num_blocks + b) * 2);
  }
}

/// Indices of the rows of x that a block multiplies, if these rows are adjacent. This is one of the two types
/// for `Rows` below; the other is `rows_of_pairs` (gpu/kernels/expert_matmul.cuh).
struct adjacent_rows {
  std::uint32_t first;
  PACELINE_DEVICE std::uint32_t operator[](std::uint32_t i) const { return first + i; }
};

/// Writes the terms of one block for all chains. Chain c is plane c % num_planes of row rows[c / num_planes].
template <class Rows>
PACELINE_DEVICE void write_terms(const quantised_rows& x, std::uint32_t num_cols, std::uint32_t num_planes,
                                 std::uint32_t b, const Rows& rows, std::uint32_t num_chains,
                                 const weight_block& w, chain_terms& terms) {
  const std::uint32_t lane = lane_index();
  const std::uint32_t num_blocks = num_cols / quantised_block;
  for (std::uint32_t g = 0; g < 2; ++g) terms.min_of_group[g][lane] = w.m * static_cast<float>(w.mins[g]);
  for (std::uint32_t c = 0; c < num_chains; ++c) {
    const std::size_t row = std::size_t{rows[c / num_planes]} * num_planes + c % num_planes;
    const std::int8_t* const q = x.codes + row * num_cols + b * 32;
    std::int32_t products[2] = {0, 0};
    for (std::uint32_t i = 0; i < 32; ++i) products[i / 16] += std::int32_t{w.codes[i]} * q[i];
    const std::int32_t sum = w.group == 32 ? w.scales[0] * (products[0] + products[1])
                                           : w.scales[0] * products[0] + w.scales[1] * products[1];
    const float scale = x.scales[row * num_blocks + b];
    terms.product[c][lane] = static_cast<float>(sum) * w.d;
    terms.scale[c][lane] = scale;
    const std::int16_t* const sums = x.sums + (row * num_blocks + b) * 2;
    const std::int32_t first = w.group == 32 ? sums[0] + sums[1] : sums[0];
    terms.sum_of_group[0][c][lane] = scale * static_cast<float>(first);
    terms.sum_of_group[1][c][lane] = scale * static_cast<float>(sums[1]);
  }
}

/// Adds the terms of `num_blocks` blocks to the sum of chain `c`.
PACELINE_DEVICE float add_terms(const chain_terms& terms, std::uint32_t c, std::uint32_t num_blocks,
                                std::uint32_t num_mins, float acc) {
  for (std::uint32_t i = 0; i < num_blocks; ++i) {
    acc = std::fma(terms.product[c][i], terms.scale[c][i], acc);
    for (std::uint32_t g = 0; g < num_mins; ++g)
      acc = std::fma(terms.min_of_group[g][i], terms.sum_of_group[g][c][i], acc);
  }
  return acc;
}

/// Computes output `n` of `num_rows` rows (at most matmul_chains / num_planes) with a warp. Calls `store`
/// with the number of each row and its sum, in a different lane for each row.
template <class Rows, class Store>
PACELINE_DEVICE void multiply_quantised(const weight_rows& weights, const quantised_rows& x,
                                        std::uint32_t num_planes, std::uint32_t n, const Rows& rows,
                                        std::uint32_t num_rows, const Store& store) {
  chain_terms& terms = shared_memory<chain_terms>()[warp_index()];
  const std::uint32_t lane = lane_index(), num_chains = num_rows * num_planes;
  const std::uint32_t num_blocks = weights.num_cols / quantised_block;
  // Number of groups with minima in a block: a property of the format, so it is the same in all lanes.
  std::uint32_t num_mins = 0;
  float acc = 0;
  for (std::uint32_t first = 0; first < num_blocks; first += warp_size) {
    weight_block w;
    const std::uint32_t b = first + lane < num_blocks ? first + lane : num_blocks - 1;
    read_weight_block(weights, n, b, w);
    num_mins = w.has_mins ? 32 / w.group : 0;
    write_terms(x, weights.num_cols, num_planes, b, rows, num_chains, w, terms);
    sync_warp();
    const std::uint32_t rest = num_blocks - first;
    if (lane < num_chains) acc = add_terms(terms, lane, rest < warp_size ? rest : warp_size, num_mins, acc);
    sync_warp();
  }
  terms.product[lane % matmul_chains][lane / matmul_chains] = acc;
  sync_warp();
  if (lane >= num_rows) return;
  float sum = terms.product[lane * num_planes][0];
  if (num_planes == 2) sum = sum + terms.product[lane * 2 + 1][0];
  store(lane, sum);
}

/// Computes `float_outputs` outputs, from `first_output` on, of `num_rows` rows (at most float_rows). Calls
/// `store` with the number of a row, an output and the sum. All threads of the block call it. The next
/// columns are loaded during the sums: each sum is a chain of fused products, which would take much longer if
/// it had to wait for memory.
template <class Rows, class Store>
PACELINE_DEVICE void multiply_floats(const weight_rows& weights, const float* x, std::size_t x_stride,
                                     std::uint32_t first_output, const Rows& rows, std::uint32_t num_rows,
                                     const Store& store) {
  float_tile& tile = *shared_memory<float_tile>();
  const float* of_rows[float_rows];
  PACELINE_UNROLL
  for (std::uint32_t r = 0; r < float_rows; ++r) of_rows[r] = x + rows[r < num_rows ? r : 0] * x_stride;
  const std::uint32_t column = thread_index();
  float next_weights[float_outputs], next_x[float_rows];
  const auto load = [&](std::uint32_t first) {
    const std::uint32_t k = first + column;
    PACELINE_UNROLL
    for (std::uint32_t n = 0; n < float_outputs; ++n)
      next_weights[n] = first_output + n < weights.num_rows && k < weights.num_cols
                            ? float_weight(weights, first_output + n, k)
                            : 0.0F;
    PACELINE_UNROLL
    for (std::uint32_t r = 0; r < float_rows; ++r)
      next_x[r] = r < num_rows && k < weights.num_cols ? of_rows[r][k] : 0.0F;
  };
  const std::uint32_t row = thread_index() / (2 * float_outputs);
  const std::uint32_t output = thread_index() / 2 % float_outputs, parity = thread_index() % 2;
  float acc = 0;
  load(0);
  for (std::uint32_t first = 0; first < weights.num_cols; first += float_columns) { // an even column
    sync_block(); // all have used the previous columns
    PACELINE_UNROLL
    for (std::uint32_t n = 0; n < float_outputs; ++n) tile.weights[n][column] = next_weights[n];
    PACELINE_UNROLL
    for (std::uint32_t r = 0; r < float_rows; ++r) tile.x[r][column] = next_x[r];
    sync_block();
    load(first + float_columns);
    const std::uint32_t rest = weights.num_cols - first;
    const std::uint32_t num_cols = rest < float_columns ? rest : float_columns;
    for (std::uint32_t k = parity; k < num_cols; k += 2)
      acc = std::fma(tile.weights[output][k], tile.x[row][k], acc);
  }
  const float sum = acc + shuffle_xor(acc, 1); // in the lane that stores it: even columns + odd columns
  if (parity == 0 && row < num_rows && first_output + output < weights.num_rows)
    store(row, first_output + output, sum);
}

PACELINE_DEVICE void store_output(const matmul_params& p, std::uint32_t row, std::uint32_t n, float acc) {
  float* const y = p.y + row * p.y_stride + n;
  if (p.bias != nullptr) acc = acc + p.bias[n];
  *y = p.add ? *y + acc : acc;
}

PACELINE_KERNEL matmul_quantised(matmul_params p) {
  begin_in_turn();
  const std::uint32_t n = block_x() * matmul_warps + warp_index();
  if (n >= p.weights.num_rows) return;
  // Whole rows, because the number of planes divides matmul_chains.
  const std::uint32_t most_rows = matmul_chains / p.num_planes, first = block_y() * most_rows;
  const std::uint32_t num_rows = p.num_rows - first < most_rows ? p.num_rows - first : most_rows;
  multiply_quantised(p.weights, p.quantised, p.num_planes, n, adjacent_rows{first}, num_rows,
                     [&](std::uint32_t r, float sum) { store_output(p, first + r, n, sum); });
}

PACELINE_KERNEL matmul_float(matmul_params p) {
  begin_in_turn();
  const std::uint32_t first = block_y() * float_rows;
  const std::uint32_t num_rows = p.num_rows - first < float_rows ? p.num_rows - first : float_rows;
  multiply_floats(p.weights, p.x, p.x_stride, block_x() * float_outputs, adjacent_rows{first}, num_rows,
                  [&](std::uint32_t r, std::uint32_t n, float sum) { store_output(p, first + r, n, sum); });
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
