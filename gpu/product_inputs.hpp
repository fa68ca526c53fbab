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

/// Launches the conversion of `rows` to the form that streamed products read, after the norm if there is one.
/// The result is in `room`, which is enlarged if necessary. All rows must fit in `num_tiles` tiles of 8 rows.
arranged_rows arrange(step_queue& steps, memory& room, const device_rows& rows, std::uint32_t num_tiles,
                      const device::input_norm& norm = {});

/// Launches the quantisation of `rows` for products with quantised weights that are not streamed. The result
/// is in `room`. `num_planes`: 1 or 2 for each row (`device::matmul_args::two_planes`).
quantised_rows quantise(step_queue& steps, memory& room, const device_rows& rows, std::uint32_t num_planes);

} // namespace paceline::gpu
