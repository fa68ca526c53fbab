#include "tests/gpu/kernels/sixteen_bit_reference.hpp"

#include "gpu/kernels/sixteen_bit.hpp"
#include "gpu/kernels/streamed_layout.hpp"
#include "gpu/split_columns.hpp"
#include "runtime/device/float16.hpp"
#include "runtime/device/stored_block.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace paceline::gpu {
namespace {

/// One row of weights, value by value: code * scale, and the minimum. No rounding: both fit a float.
struct exact_row {
  std::vector<double> products;
  std::vector<double> mins;
  /// Lower bound that the tensor core assumes for a product: its factor is then 2^-14.
  std::vector<double> least;
};

constexpr double least_factor = 0x1p-14;

/// The magnitude of a factor with which the core decides how many bits of a sum are kept.
double counted(double value, double least) { return value == 0 ? 0 : std::max(std::fabs(value), least); }

/// The factor that brings a row's largest magnitude to the upper end of float16.
double multiplier_of(std::span<const double> row) {
  double largest = 0;
  for (const double v : row) largest = std::max(largest, std::fabs(v));
  return double{multiplier_to_f16(static_cast<float>(largest))};
}

exact_row row_of(const device::tensor_view& weights, std::size_t row) {
  const auto traits = *device::traits_of(weights.type);
  const std::size_t row_bytes = weights.num_cols / traits.block_values * traits.block_bytes;
  const auto bytes = weights.bytes.subspan(row * row_bytes, row_bytes);
  exact_row out{std::vector<double>(weights.num_cols), std::vector<double>(weights.num_cols),
                std::vector<double>(weights.num_cols)};
  const auto quantised = device::quantised_traits_of(weights.type);
  if (weights.type == device::tensor_type::f8_e4m3) {
    for (std::size_t k = 0; k < weights.num_cols; ++k) {
      const std::byte* const block = bytes.data() + k / device::f8_block::num_values * traits.block_bytes;
      float scale = 0;
      std::memcpy(&scale, block, sizeof scale);
      const auto code = block[device::f8_block::codes_at + k % device::f8_block::num_values];
      out.products[k] = double{device::float_of_e4m3(std::to_integer<std::uint8_t>(code))} * double{scale};
      out.least[k] = least_factor * 0x1p8 * std::fabs(double{scale});
    }
    return out;
  }
  if (!quantised) {
    std::vector<float> values(weights.num_cols);
    device::dequantize(weights.type, bytes, values);
    std::ranges::copy(values, out.products.begin());
    const bool is_scaled = weights.type == device::tensor_type::bf16;
    std::ranges::fill(out.least, least_factor / (is_scaled ? multiplier_of(out.products) : 1));
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
    if (streamed_layout_of(weights.type).scales_codes())
      out.least[k] = least_factor * 0x1p15 * std::fabs(double{device::float_of_f16(block.d)});
    if (quantised->has_mins)
      out.mins[k] = double{device::float_of_f16(block.m)} * (quantised->has_scales ? block.mins[g] : 1);
  }
  return out;
}

/// A row of x in the device's form: float16 times a power of two.
struct activations {
  std::vector<double> values;
  double least = 0; ///< lower bound that the tensor core assumes for a value

  explicit activations(std::span<const float> x) {
    float largest = 0;
    for (const float v : x) largest = std::max(largest, std::fabs(v));
    const float multiplier = multiplier_to_f16(largest);
    for (const float v : x)
      values.push_back(double{device::float_of_f16(device::f16_of_float(v * multiplier))} /
                       double{multiplier});
    least = least_factor / double{multiplier};
  }
};

/// The number of roundings that an output may have seen, in units of 2^-24. Each is at most as large as all
/// its terms together. At every 16 columns the tensor core loses up to 2^-23 of the largest of 17 terms for
/// each of them. A sum is what the steps of one group have in common, or for floating-point weights the steps
/// of one split. Further roundings: two or one fused products for each group, 32 for a sum of activations,
/// one for each split, and three at the end.
double num_roundings(const device::tensor_view& weights) {
  const streamed_layout layout = streamed_layout_of(weights.type);
  const auto num_cols = static_cast<std::uint32_t>(weights.num_cols);
  const column_splits splits = split_columns(static_cast<std::uint32_t>(weights.num_rows), num_cols);
  const double of_step = 2 * 17;
  const double at_the_end = splits.num_splits + 3.0;
  const double cols_of_split = std::min(num_cols, splits.tiles_of_split * tile_cols);
  if (layout.group_cols == 0) return of_step * std::ceil(cols_of_split / 16) + at_the_end;
  // For 256 columns: 16 steps, or one step of the minima. The sums of the minima have seen 32 roundings, and
  // 4 more in two float16.
  if (layout.scales_codes()) return of_step * 17 + 36 + 2 * cols_of_split / 256 + at_the_end;
  const double num_groups = cols_of_split / layout.group_cols;
  return of_step * layout.group_cols / 16 + (layout.has_mins ? 2 * num_groups + 32 : num_groups) + at_the_end;
}

/// Exact sums of the terms of sixteen_bit.hpp. A result may differ by `relative` of the magnitudes of its
/// terms, plus `of_largest` of the products of the row's largest weight with all activations.
std::vector<reference_output> exact_sums(const device::tensor_view& weights, std::span<const float> x,
                                         std::uint32_t num_rows, arithmetic how, double relative,
                                         double of_largest) {
  std::vector<activations> rows;
  for (std::uint32_t r = 0; r < num_rows; ++r)
    rows.emplace_back(x.subspan(r * weights.num_cols, weights.num_cols));
  std::vector<reference_output> out(num_rows * weights.num_rows);
  for (std::size_t n = 0; n < weights.num_rows; ++n) {
    exact_row w = row_of(weights, n);
    double largest = 0;
    for (std::size_t k = 0; k < weights.num_cols; ++k)
      largest = std::max(largest, std::fabs(w.products[k]) + std::fabs(w.mins[k]));
    if (how == arithmetic::fast) // float16 times a power of two, all of them
      std::ranges::fill(w.least, least_factor / double{multiplier_to_f16(static_cast<float>(largest))});
    for (std::uint32_t r = 0; r < num_rows; ++r) {
      double sum = 0, terms = 0, of_x = 0;
      for (std::size_t k = 0; k < weights.num_cols; ++k) {
        const double a = rows[r].values[k];
        sum += w.products[k] * a + w.mins[k] * a;
        terms += counted(w.products[k], w.least[k]) * counted(a, rows[r].least) + std::fabs(w.mins[k] * a);
        of_x += std::fabs(a);
      }
      out[r * weights.num_rows + n] = {sum, relative * terms + of_largest * largest * of_x};
    }
  }
  return out;
}

} // namespace

std::vector<reference_output> sixteen_bit_reference(const device::tensor_view& weights,
                                                    std::span<const float> x, std::uint32_t num_rows) {
  // BF16 weights lose what is below 2^-25 when the largest is 2^14.
  const double lost = weights.type == device::tensor_type::bf16 ? 0x1p-39 : 0.0;
  return exact_sums(weights, x, num_rows, arithmetic::sixteen_bit,
                    num_roundings(weights) * 0x1p-24 * 1.001, // products of roundings
                    lost);
}

/// A weight that does not have 16 bits is rounded to float32. Then it is rounded to the 11 bits of float16,
/// or to a multiple of 2^-24 if the row's largest is 2^14 or more. In a sum of any order, each of the padded
/// terms meets at most as many roundings as there are terms. Those of the tensor core lose up to twice as
/// much. Three more are at the end.
std::vector<reference_output> fast_reference(const device::tensor_view& weights, std::span<const float> x,
                                             std::uint32_t num_rows) {
  const bool is_rounded = device::traits_of(weights.type)->block_values != 1;
  const double num_terms = std::ceil(static_cast<double>(weights.num_cols) / tile_cols) * tile_cols;
  const double relative = (is_rounded ? 0x1p-11 + 0x1p-24 : 0.0) + (2 * num_terms + 3) * 0x1p-24;
  return exact_sums(weights, x, num_rows, arithmetic::fast, relative * 1.001,
                    weights.type == device::tensor_type::f16 ? 0.0 : 0x1p-39);
}

} // namespace paceline::gpu
