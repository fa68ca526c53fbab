#pragma once

#include <bit>
#include <cstdint>
#include <limits>

// Products with activations of 16 bits, as a GPU makes them on its tensor cores: the contract of matmul under
// `arithmetic::sixteen_bit`, beside that of runtime/device/op_matmul.hpp (docs/decisions/0501 says why there
// are two).
//
// **Activations.** A row of x is multiplied by a power of two, `multiplier_to_f16(max |x|)`, that brings its
// largest value between 2^14 and 2^15, and rounded to float16: 11 bits for values down to 2^-28 of the row's
// largest. A row with a value that is not finite has results that are NaN.
//
// **Weights** are not rounded. Codes of up to 8 bits are float16 as they are, those of F8_E4M3 among them
// (2^-8 times their value, which the scale makes up for); F16 is; BF16 becomes so by a power of two a row,
// but for what is smaller than 2^-32 of the row's largest.
//
// **Sums.** The columns are cut into splits of whole multiples of 256 (`gpu/split_columns.hpp`: by the shape
// of the matrix alone). In a split, from acc = 0, per group of 16 or 32 columns that share a scale,
// ascending:
//
//     j   = sum of code * x       16 columns at a time on the tensor core, which adds to what it has so far
//     acc = fma(j, scale, acc)    scale = d * sc, exact; of F8_E4M3 as it is stored
//     acc = fma(min, s, acc)      s the sum of the group's 32 x; Q4_1 only
//
// where s is added up by lanes: lane t < 4 has the columns 8 i + 2 t and the next for i = 0 to 3, in this
// order, and s = (lane 0 + lane 1) + (lane 2 + lane 3). Of Q4_K and Q5_K, whose scales and minima are whole
// numbers of 6 bits times the d and the m of 256 columns, code * scale is a float16 and a column's weight on
// the core:
//
//     j   = sum of (code * scale) * x       over the 256 columns, 16 at a time
//     k   = sum of min * s                  over their 8 groups, s as two float16, 22 bits, in one step
//     acc = fma(j, d, acc)
//     acc = fma(k, m, acc)
//
// For F16 and BF16 acc itself is what the core adds to. Then acc is multiplied by the inverse powers of
// two of weights and row; the splits are added in ascending order; y = that, or that + bias; with `add`,
// y_before + that.
//
// Every step but the tensor core's is rounded once. How that rounds the sum of its 17 terms is its own:
// float32 with no more than 2^-23 of the largest term lost for each, where a factor less than 2^-14 counts as
// 2^-14 (code * scale of Q4_K and Q5_K is 2^-15 or more there). So a row's result has the same bits on
// one kind of GPU whatever the other rows, their number and its place among them; but not those of another
// device.
//
// **Fast mode** (docs/decisions/0508) gives that up for passes of more than 64 rows: weights, rounded to
// float16 after a power of two a row has brought them into its range, and activations as above are multiplied
// by cuBLASLt, in sums of float32 whose order it chooses by the number of rows. Weights of F16 and BF16 are
// not rounded by that.

namespace paceline::gpu {

/// Arithmetic of products.
enum class arithmetic : std::uint8_t {
  reference,   ///< as in runtime/device/op_matmul.hpp, to the bit: the results of every other device
  sixteen_bit, ///< as above
  fast,        ///< as above, except for passes of more than 64 rows
};

/// True if products of few rows are computed as above.
constexpr bool is_sixteen_bit(arithmetic products) noexcept { return products != arithmetic::reference; }

/// The power of two for which its product with `largest`, which must not be negative, is at least 2^14 and
/// less than 2^15; 2^126 for values below 2^-112, NaN for values that are not finite.
constexpr float multiplier_to_f16(float largest) noexcept {
  constexpr std::uint32_t bias = 127, most = 126;
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(largest) >> 23;
  if (exponent >= 255) return std::numeric_limits<float>::quiet_NaN();
  const std::uint32_t wanted = 14 + 2 * bias - exponent; // biased
  return std::bit_cast<float>((wanted < most + bias ? wanted : most + bias) << 23);
}

} // namespace paceline::gpu
