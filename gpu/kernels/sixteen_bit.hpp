#pragma once

#include <bit>
#include <cstdint>
#include <limits>

// Matrix products with activations of 16 bits, as tensor cores compute them. This is the contract of matmul
// under `arithmetic::sixteen_bit`. Under `arithmetic::reference`, runtime/device/op_matmul.hpp is the
// contract (docs/decisions/0501 says why there are two).
//
// **Activations.** A row of x is multiplied by a power of two, `multiplier_to_f16(max |x|)`, which brings its
// largest absolute value to at least 2^14 and below 2^15. Then it is rounded to float16. Values down to 2^-28
// of the row's largest keep 11 significant bits. If a value of the row is not finite, all results of the row
// are NaN.
//
// **Weights** are used as float16, without rounding except in BF16. Integer codes of up to 8 bits and F16 are
// exact in float16. F8_E4M3 is used as 2^-8 times its value, which is exact, and the scale compensates for
// the factor. BF16 is multiplied by a power of two for each row, as activations are; only values below 2^-31
// of the row's largest are rounded.
//
// **Sums.** The columns are divided into splits, whose sizes are multiples of 256 and depend only on the
// shape of the matrix (`gpu/split_columns.hpp`). In a split acc begins with 0. Then for each group of 16 or
// 32 columns that share a scale, in ascending order:
//
//     j   = sum of code * x       16 columns at a time on the tensor core, which adds them to the sum so far
//     acc = fma(j, scale, acc)    scale = d * sc, exact; of F8_E4M3 as it is stored
//     acc = fma(min, s, acc)      s is the sum of the group's 32 x; Q4_1 only
//
// where s is summed by four lanes: lane t adds columns 8 i + 2 t and 8 i + 2 t + 1 for i = 0 to 3, in this
// order, and s = (lane 0 + lane 1) + (lane 2 + lane 3). In Q4_K and Q5_K a scale is a 6-bit integer times the
// d of 256 columns, and a minimum is a 6-bit integer times their m. With `scale` and `min` for the integers,
// code * scale is exact in float16, and the tensor core multiplies x by this product:
//
//     j   = sum of (code * scale) * x       over the 256 columns, 16 at a time
//     k   = sum of min * s                  over their 8 groups in one step; s is two float16 (22 bits)
//     acc = fma(j, d, acc)
//     acc = fma(k, m, acc)
//
// For F16 and BF16 the tensor core adds directly to acc. Then acc is multiplied by the inverses of the powers
// of two of the weights' row and of the row of x. The splits are added in ascending order, then the bias, if
// there is one. With `add` the result is added to y, otherwise it is stored in y.
//
// Every step except the tensor core's is rounded once. How the tensor core rounds the sum of its 17 terms
// depends on the kind of GPU. So on one kind of GPU a row's result has the same bits whatever other rows are
// computed with it, but another kind may give other bits. The tensor core's rounded sum is assumed to be a
// float32, and its error to be at most 17 * 2^-23 of the largest term. In this bound a factor below 2^-14
// counts as 2^-14 (code * scale of Q4_K and Q5_K is at least 2^-15).
//
// **Fast mode** (docs/decisions/0508) does not guarantee the same bits for passes of more than 64 rows. In
// such passes weights are multiplied by a power of two for each row and rounded to float16 (F16 and BF16 as
// above). cuBLASLt multiplies them by the activations described above. It sums in float32, in an order that
// it chooses by the shape of the product.

namespace paceline::gpu {

/// Arithmetic of products.
enum class arithmetic : std::uint8_t {
  reference,   ///< as in runtime/device/op_matmul.hpp: the same bits as on the CPU
  sixteen_bit, ///< as above
  fast,        ///< as above, except for passes of more than 64 rows
};

/// True if products of up to 64 rows are computed as described above.
constexpr bool is_sixteen_bit(arithmetic products) noexcept { return products != arithmetic::reference; }

/// The power of two whose product with `largest` is at least 2^14 and below 2^15. `largest` must not be
/// negative. 2^126 if `largest` is below 2^-112; NaN if it is not finite.
constexpr float multiplier_to_f16(float largest) noexcept {
  constexpr std::uint32_t bias = 127, most = 126;
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(largest) >> 23;
  if (exponent >= 255) return std::numeric_limits<float>::quiet_NaN();
  const std::uint32_t wanted = 14 + 2 * bias - exponent; // biased
  return std::bit_cast<float>((wanted < most + bias ? wanted : most + bias) << 23);
}

} // namespace paceline::gpu
