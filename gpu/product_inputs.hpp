#pragma once

#include "gpu/kernels/streamed_params.hpp"
#include "gpu/step_queue.hpp"
#include "runtime/device/op_rms_norm.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::gpu {

/// Rows in device memory.
struct device_rows {
  const float* x = nullptr; ///< [num_rows][num_cols], rows `stride` values apart
  std::size_t stride = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t num_cols = 0;
};

/// Launches the conversion of rows to what streamed products read, in `room`, with tiles for at least all
/// rows.
arranged_rows arrange(step_queue& steps, memory& room, const device_rows& rows, std::uint32_t num_tiles,
                      const device::input_norm& norm = {});

/// The same for products with quantised weights that are not streamed.
quantised_rows quantise(step_queue& steps, memory& room, const device_rows& rows, std::uint32_t num_planes);

} // namespace paceline::gpu
