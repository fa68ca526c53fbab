#include "tests/gpu/kernels/sixteen_bit_reference.hpp"

#include "gpu/kernels/sixteen_bit.hpp"
#include "gpu/kernels/streamed_layout.hpp"
#include "gpu/split_columns.hpp"
#include "runtime/device/float16.hpp"
#include "runtime/device/stored_block.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::gpu {
namespace {

/// One row of weights, value by value: code * scale, and the minimum. No rounding: both fit a float.
struct exact_row {
  std::vector<double> products;
  std::vector<double> mins;
};

exact_row row_of(const device::tensor_view& weights, std::size_t row) {
  const auto traits = *device::traits_of(weights.type);
  const std::size_t row_bytes = weights.num_cols / traits.block_values * traits.block_bytes;
  const auto bytes = weights.bytes.subspan(row * row_bytes, row_bytes);
  exact_row out{std::vector<double>(weights.num_cols), std::vector<double>(weights.num_cols)};
  const auto quantised = device::quantised_traits_of(weights.type);
  if (!quantised) {
    std::vector<float> values(weights.num_cols);
    device::dequantize(weights.type, bytes, values);
    std::ranges::copy(values, out.products.begin());
    return out;
  }
  device::stored_block block;
  for (std::size_t k = 0; k < weights.num_cols; ++k) {
    const std::size_t i = k % quantised->num_values, g = i / quantised->group_values;
    if (i == 0)
      device::read_stored_block(weights.type, bytes.data() + k / quantised->num_values * traits.block_bytes,
                                block);
    const int scale = quantised->has_scales ? block.scales[g] : 1;
    out.products[k] =
        double{device::float_of_f16(block.d)} * scale * device::code_value(*quantised, block.codes[i]);
    if (quantised->has_mins)
      out.mins[k] = double{device::float_of_f16(block.m)} * (quantised->has_scales ? block.mins[g] : 1);
  }
  return out;
}

/// The row as the device has it: float16 times a power of two.
std::vector<double> activations(std::span<const float> x) {
  float largest = 0;
  for (const float v : x) largest = std::max(largest, std::fabs(v));
  const float multiplier = multiplier_to_f16(largest);
  std::vector<double> out;
  for (const float v : x)
    out.push_back(double{device::float_of_f16(device::f16_of_float(v * multiplier))} / double{multiplier});
  return out;
}

/// Roundings an output may have seen, each of no more than all its terms together, in units of 2^-24. The
/// tensor core loses up to 2^-23 of the largest of 17 terms for each of them, at every 16 columns; what one
/// group's steps, or for floating-point weights one split's, have in common is a sum. Others: two or one
/// fused products a group, 32 for a sum of activations, one a split, three at the end.
double num_roundings(const device::tensor_view& weights) {
  const streamed_layout layout = streamed_layout_of(weights.type);
  const auto num_cols = static_cast<std::uint32_t>(weights.num_cols);
  const column_splits splits = split_columns(static_cast<std::uint32_t>(weights.num_rows), num_cols);
  const double of_step = 2 * 17;
  const double at_the_end = splits.num_splits + 3.0;
  const double cols_of_split = std::min(num_cols, splits.tiles_of_split * tile_cols);
  if (layout.group_cols == 0) return of_step * std::ceil(cols_of_split / 16) + at_the_end;
  const double num_groups = cols_of_split / layout.group_cols;
  return of_step * layout.group_cols / 16 + (layout.has_mins ? 2 * num_groups + 32 : num_groups) + at_the_end;
}

} // namespace

std::vector<reference_output> sixteen_bit_reference(const device::tensor_view& weights,
                                                    std::span<const float> x, std::uint32_t num_rows) {
  const double relative = num_roundings(weights) * 0x1p-24 * 1.001; // products of roundings
  std::vector<std::vector<double>> rows;
  for (std::uint32_t r = 0; r < num_rows; ++r)
    rows.push_back(activations(x.subspan(r * weights.num_cols, weights.num_cols)));
  std::vector<reference_output> out(num_rows * weights.num_rows);
  for (std::size_t n = 0; n < weights.num_rows; ++n) {
    const exact_row w = row_of(weights, n);
    double largest = 0;
    for (const double v : w.products) largest = std::max(largest, std::fabs(v));
    for (std::uint32_t r = 0; r < num_rows; ++r) {
      double sum = 0, terms = 0, of_x = 0;
      for (std::size_t k = 0; k < weights.num_cols; ++k) {
        const double a = rows[r][k];
        sum += w.products[k] * a + w.mins[k] * a;
        terms += std::fabs(w.products[k] * a) + std::fabs(w.mins[k] * a);
        of_x += std::fabs(a);
      }
      // BF16 weights lose what is below 2^-25 when the largest is 2^14.
      const double lost = weights.type == device::tensor_type::bf16 ? 0x1p-39 * largest * of_x : 0.0;
      out[r * weights.num_rows + n] = {sum, relative * terms + lost};
    }
  }
  return out;
}

} // namespace paceline::gpu
