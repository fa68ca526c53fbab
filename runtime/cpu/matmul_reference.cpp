#include "runtime/cpu/matmul_reference.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/float16.hpp"
#include "runtime/device/stored_block.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace paceline::cpu {

namespace {

constexpr std::uint32_t cols_per_sum = 32;

/// A block of activations: value i is approximately dx * q[i].
struct quantised_block {
  float dx = 0;
  std::int32_t q[cols_per_sum] = {};
};

quantised_block quantise(const float* x) {
  quantised_block block;
  float amax = 0;
  for (std::uint32_t i = 0; i < cols_per_sum; ++i) {
    if (!std::isfinite(x[i])) {
      block.dx = std::numeric_limits<float>::quiet_NaN();
      return block;
    }
    amax = std::max(amax, std::fabs(x[i]));
  }
  if (amax < 0x1p-100f) return block;
  block.dx = amax / 127.0f;
  for (std::uint32_t i = 0; i < cols_per_sum; ++i)
    block.q[i] = static_cast<std::int32_t>(std::nearbyint(x[i] * (127.0f / amax)));
  return block;
}

/// The remainder after the quantisation of a block.
std::array<float, cols_per_sum> rest_of(const float* x, const quantised_block& block) {
  std::array<float, cols_per_sum> rest;
  for (std::uint32_t i = 0; i < cols_per_sum; ++i)
    rest[i] = std::fma(-block.dx, static_cast<float>(block.q[i]), x[i]);
  return rest;
}

/// acc plus the product of block `b` of a stored row with `x`.
float add_block(const device::quantised_traits& traits, const device::stored_block& stored, std::uint32_t b,
                const quantised_block& x, float acc) {
  const std::uint32_t num_groups = cols_per_sum / traits.group_values;
  std::int64_t j = 0;
  std::int32_t sums[2] = {0, 0}; // of q, per group
  for (std::uint32_t g = 0; g < num_groups; ++g) {
    std::int64_t products = 0;
    for (std::uint32_t i = g * traits.group_values; i < (g + 1) * traits.group_values; ++i) {
      products += device::code_value(traits, stored.codes[b * cols_per_sum + i]) * x.q[i];
      sums[g] += x.q[i];
    }
    j += stored.scales[b * num_groups + g] * products;
  }
  acc = std::fma(static_cast<float>(j) * device::float_of_f16(stored.d), x.dx, acc);
  for (std::uint32_t g = 0; traits.has_mins && g < num_groups; ++g) {
    const float min = device::float_of_f16(stored.m) * static_cast<float>(stored.mins[b * num_groups + g]);
    acc = std::fma(min, x.dx * static_cast<float>(sums[g]), acc);
  }
  return acc;
}

float quantised_dot(device::tensor_type type, std::span<const std::byte> row,
                    const std::vector<quantised_block>& x) {
  const device::quantised_traits traits = *device::quantised_traits_of(type);
  const std::uint32_t unit_blocks = traits.num_values / cols_per_sum;
  device::stored_block stored;
  float acc = 0;
  for (std::size_t b = 0; b < x.size(); ++b) {
    if (b % unit_blocks == 0)
      device::read_stored_block(type, row.data() + b / unit_blocks * device::traits_of(type)->block_bytes,
                                stored);
    acc = add_block(traits, stored, b % unit_blocks, x[b], acc);
  }
  return acc;
}

float float_dot(device::tensor_type type, std::span<const std::byte> row, std::span<const float> x) {
  std::vector<float> weights(x.size());
  device::dequantize(type, row, weights);
  float acc[2] = {0, 0};
  for (std::size_t k = 0; k < x.size(); ++k) acc[k % 2] = std::fma(weights[k], x[k], acc[k % 2]);
  return acc[0] + acc[1];
}

} // namespace

std::vector<float> matmul_reference(const device::tensor_view& weights, reference_rows x) {
  PACELINE_CHECK(x.x.size() == x.num_rows * weights.num_cols,
                 "matmul_reference: x is not [num_rows][num_cols]");
  const std::size_t row_bytes = weights.bytes.size() / weights.num_rows;
  std::vector<float> y;
  y.reserve(x.num_rows * weights.num_rows);
  for (std::uint32_t r = 0; r < x.num_rows; ++r) {
    const auto row_of_x = x.x.subspan(r * weights.num_cols, weights.num_cols);
    const bool quantised = !device::is_floating(weights.type);
    std::vector<quantised_block> blocks, rest;
    for (std::size_t k = 0; quantised && k < row_of_x.size(); k += cols_per_sum) {
      blocks.push_back(quantise(&row_of_x[k]));
      if (x.two_planes) rest.push_back(quantise(rest_of(&row_of_x[k], blocks.back()).data()));
    }
    for (std::uint64_t n = 0; n < weights.num_rows; ++n) {
      const auto row = weights.bytes.subspan(n * row_bytes, row_bytes);
      float dot =
          quantised ? quantised_dot(weights.type, row, blocks) : float_dot(weights.type, row, row_of_x);
      if (!rest.empty()) dot += quantised_dot(weights.type, row, rest);
      y.push_back(dot);
    }
  }
  return y;
}

} // namespace paceline::cpu
