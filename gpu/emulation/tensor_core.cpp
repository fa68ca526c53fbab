#include "gpu/emulation/tensor_core.hpp"

#include "runtime/device/float16.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace paceline::gpu::emulation {
namespace {

constexpr std::int8_t of_zero = -128; ///< exponent that stands for zero

/// A lane's operands as numbers, and their exponents.
struct lane_operands {
  float a[2][4]; ///< of rows g and g + 8: columns 2 t, 2 t + 1, 2 t + 8, 2 t + 9
  float b[4];    ///< of column g: rows 2 t, 2 t + 1, 2 t + 8, 2 t + 9
  std::int8_t exponents_a[2][4], exponents_b[4];
};
static_assert(sizeof(lane_operands) <= shared_slot_bytes);

void widen(std::uint32_t pair, float* out, std::int8_t* exponents) {
  for (int i = 0; i < 2; ++i) {
    const auto bits = static_cast<std::uint16_t>(pair >> (16 * i));
    const int exponent = std::max(bits >> 10 & 31, 1) - 15;
    out[i] = device::float_of_f16(bits);
    exponents[i] = (bits & 0x7fff) == 0 ? of_zero : static_cast<std::int8_t>(exponent);
  }
}

/// Eight products, exact.
struct eight_products {
  double values[8];
  int largest = 2 * of_zero; ///< exponent
  int num = 0;

  void add(float a, int exponent_a, float b, int exponent_b) {
    values[num++] = double{a} * double{b};
    if (exponent_a != of_zero && exponent_b != of_zero) largest = std::max(largest, exponent_a + exponent_b);
  }
};

int exponent_of(float value) {
  const int exponent = static_cast<int>(std::bit_cast<std::uint32_t>(value) >> 23 & 255U);
  return value == 0 ? 2 * of_zero : std::max(exponent, 1) - 127;
}

double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

/// To float32, towards zero.
float cut(double value) {
  const auto nearest = static_cast<float>(value);
  return std::fabs(double{nearest}) > std::fabs(value) ? std::nextafter(nearest, 0.0F) : nearest;
}

/// In fixed point; double precision represents the sums exactly.
float add_up(float c, const eight_products& products) {
  const int largest = std::max(exponent_of(c), products.largest);
  const double to_fixed = power_of_two(24 - largest);
  double sum = std::trunc(double{c} * to_fixed);
  for (const double value : products.values) sum += std::trunc(value * to_fixed);
  return cut(sum * power_of_two(largest - 24));
}

} // namespace

void multiply_add_tile(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  lane_operands own;
  for (int i = 0; i < 4; ++i) widen(a[i], own.a[i % 2] + i / 2 * 2, own.exponents_a[i % 2] + i / 2 * 2);
  widen(b0, own.b, own.exponents_b), widen(b1, own.b + 2, own.exponents_b + 2);
  const std::byte* const slots = lay_out_in_warp(&own, sizeof own);
  const auto operands = [slots](std::uint32_t lane) {
    lane_operands of;
    std::memcpy(&of, slots + lane * shared_slot_bytes, sizeof of);
    return of;
  };
  const std::uint32_t lane = this_thread().index % 32, g = lane / 4, t = lane % 4;
  eight_products products[2][4]; // [half of the columns of a][element of c]
  // The lane with these columns of a also has these rows of b.
  for (std::uint32_t part = 0; part < 4; ++part) {
    const lane_operands of_rows = operands(g * 4 + part);
    for (std::uint32_t column = 0; column < 2; ++column) {
      const lane_operands of_column = operands((2 * t + column) * 4 + part);
      for (int k = 0; k < 4; ++k)
        for (std::uint32_t row = 0; row < 2; ++row)
          products[k / 2][row * 2 + column].add(of_rows.a[row][k], of_rows.exponents_a[row][k],
                                                of_column.b[k], of_column.exponents_b[k]);
    }
  }
  for (const auto& half : products)
    for (int i = 0; i < 4; ++i) c[i] = add_up(c[i], half[i]);
}

} // namespace paceline::gpu::emulation
