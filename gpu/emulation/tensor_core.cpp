#include "gpu/emulation/tensor_core.hpp"

#include "runtime/device/float16.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace paceline::gpu::emulation {
namespace {

constexpr std::int16_t of_zero = -1000; ///< exponent of zero: its products are smaller than any float32
constexpr std::int16_t not_finite = 16;
constexpr int least_exponent = -200; ///< of a sum; smaller than any float32's

/// Numbers and their exponents.
template <int Num>
struct operands {
  float values[Num];
  std::int16_t exponents[Num];
};

/// What a lane has of both matrices, by halves of their common dimension: its elements 2 t, 2 t + 1.
struct lane_operands {
  operands<2> a[2][2]; ///< [0 for row g, 1 for row g + 8][half]
  operands<2> b[2];    ///< [half]; of column g
};
static_assert(sizeof(lane_operands) <= shared_slot_bytes && std::is_trivially_copyable_v<lane_operands>);

/// Half of a row of A, or of a column of B.
using half_line = operands<8>;

void widen(std::uint32_t pair, operands<2>& out) {
  for (int i = 0; i < 2; ++i) {
    const auto bits = static_cast<std::uint16_t>(pair >> (16 * i));
    const int exponent = std::max(bits >> 10 & 31, 1) - 15;
    out.values[i] = device::float_of_f16(bits);
    out.exponents[i] = (bits & 0x7fff) == 0 ? of_zero : static_cast<std::int16_t>(exponent);
  }
}

void place(const operands<2>& from, int part, half_line& line) {
  std::memcpy(line.values + part * 2, from.values, sizeof from.values);
  std::memcpy(line.exponents + part * 2, from.exponents, sizeof from.exponents);
}

int exponent_of(float value) {
  const int exponent = static_cast<int>(std::bit_cast<std::uint32_t>(value) >> 23 & 255U);
  return value == 0 ? int{of_zero} : std::max(exponent, 1) - 127;
}

double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

/// To float32, towards zero.
float cut(double value) {
  const auto nearest = static_cast<float>(value);
  const bool is_larger = std::fabs(double{nearest}) > std::fabs(value);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(nearest) - (is_larger ? 1U : 0U));
}

// GCC's vector extensions, because `add_up` takes most of the time of emulated products.
using eight_shorts = std::int16_t __attribute__((vector_size(16)));
using four_floats = float __attribute__((vector_size(16)));
using four_ints = std::int32_t __attribute__((vector_size(16)));

template <class Vector, class Value>
Vector loaded(const Value* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

eight_shorts larger(eight_shorts a, eight_shorts b) { return a > b ? a : b; }

std::int16_t largest_of(eight_shorts v) {
  v = larger(v, __builtin_shuffle(v, eight_shorts{4, 5, 6, 7, 0, 1, 2, 3}));
  v = larger(v, __builtin_shuffle(v, eight_shorts{2, 3, 0, 1, 6, 7, 4, 5}));
  v = larger(v, __builtin_shuffle(v, eight_shorts{1, 0, 3, 2, 5, 4, 7, 6}));
  return v[0];
}

/// `c` plus eight products. In fixed point: 24 bits from the largest exponent, the rest cut off.
float add_up(float c, const half_line& a, const half_line& b) {
  const auto of_a = loaded<eight_shorts>(a.exponents), of_b = loaded<eight_shorts>(b.exponents);
  if (largest_of(larger(of_a, of_b)) == not_finite || !std::isfinite(c)) {
    for (int k = 0; k < 8; ++k) c += a.values[k] * b.values[k];
    return c;
  }
  const int of_products = largest_of(of_a + of_b);
  const int largest = std::max(exponent_of(c), std::max(of_products, least_exponent));
  // Products of float16 are exact in float32, and so are they times a power of two: none is below 2^-48. If
  // all are 0, the power may be beyond float32.
  const float scale = static_cast<float>(power_of_two(std::min(24 - largest, 127)));
  four_ints sums{};
  for (int k = 0; k < 8; k += 4) {
    const auto products = loaded<four_floats>(a.values + k) * loaded<four_floats>(b.values + k);
    sums += __builtin_convertvector(products * scale, four_ints); // each below 2^26
  }
  const auto fixed_c = static_cast<std::int32_t>(double{c} * power_of_two(24 - largest));
  return cut((fixed_c + sums[0] + sums[1] + sums[2] + sums[3]) * power_of_two(largest - 24));
}

} // namespace

void multiply_add_tile(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  lane_operands own;
  for (int i = 0; i < 4; ++i) widen(a[i], own.a[i % 2][i / 2]);
  widen(b0, own.b[0]), widen(b1, own.b[1]);
  const std::byte* const slots = lay_out_in_warp(&own, sizeof own);
  const auto of_lane = [slots](int lane) -> const lane_operands& {
    return *reinterpret_cast<const lane_operands*>(slots + lane * shared_slot_bytes);
  };
  const int lane = static_cast<int>(this_thread().index % 32), g = lane / 4, t = lane % 4;
  for (int half = 0; half < 2; ++half) {
    half_line rows[2], columns[2];
    for (int part = 0; part < 4; ++part)
      for (int i = 0; i < 2; ++i) {
        // A lane that has these columns of A also has these rows of B.
        place(of_lane(g * 4 + part).a[i][half], part, rows[i]);
        place(of_lane((2 * t + i) * 4 + part).b[half], part, columns[i]);
      }
    for (int i = 0; i < 4; ++i) c[i] = add_up(c[i], rows[i / 2], columns[i % 2]);
  }
}

} // namespace paceline::gpu::emulation
