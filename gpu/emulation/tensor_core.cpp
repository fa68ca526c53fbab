#include "gpu/emulation/tensor_core.hpp"

#include "runtime/device/float16.hpp"

#include <cstring>

namespace paceline::gpu::emulation {
namespace {

/// A lane's operands as numbers.
struct lane_operands {
  float a[2][4]; ///< of rows g and g + 8: columns 2 t, 2 t + 1, 2 t + 8, 2 t + 9
  float b[4];    ///< of column g: rows 2 t, 2 t + 1, 2 t + 8, 2 t + 9
};
static_assert(sizeof(lane_operands) <= shared_slot_bytes);

void widen(std::uint32_t pair, float* out) {
  out[0] = device::float_of_f16(static_cast<std::uint16_t>(pair));
  out[1] = device::float_of_f16(static_cast<std::uint16_t>(pair >> 16));
}

} // namespace

void multiply_add_tile(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  lane_operands own;
  for (int i = 0; i < 4; ++i) widen(a[i], own.a[i % 2] + i / 2 * 2);
  widen(b0, own.b), widen(b1, own.b + 2);
  const std::byte* const slots = lay_out_in_warp(&own, sizeof own);
  const auto operands = [slots](std::uint32_t lane) {
    lane_operands of;
    std::memcpy(&of, slots + lane * shared_slot_bytes, sizeof of);
    return of;
  };
  const std::uint32_t lane = this_thread().index % 32, g = lane / 4, t = lane % 4;
  double sums[4] = {c[0], c[1], c[2], c[3]};
  for (std::uint32_t part = 0; part < 4; ++part) { // who has these columns of a also has these rows of b
    const lane_operands of_rows = operands(g * 4 + part);
    for (std::uint32_t column = 0; column < 2; ++column) {
      const lane_operands of_column = operands((2 * t + column) * 4 + part);
      for (int k = 0; k < 4; ++k) {
        sums[column] += double{of_rows.a[0][k]} * double{of_column.b[k]};
        sums[2 + column] += double{of_rows.a[1][k]} * double{of_column.b[k]};
      }
    }
  }
  for (int i = 0; i < 4; ++i) c[i] = static_cast<float>(sums[i]);
}

} // namespace paceline::gpu::emulation
