#pragma once

#include "gpu/kernels/streamed_params.hpp"

#include <algorithm>

namespace paceline::gpu {

/// How the columns of a streamed product are divided among thread blocks.
struct column_splits {
  std::uint32_t tiles_of_split = 0; ///< a multiple of `tiles_of_split_unit`
  std::uint32_t num_splits = 0;
};

/// Divides the columns of a matrix of `num_rows` x `num_cols` weights. The result depends only on this shape,
/// so that the sums of a row of x do not depend on other rows. The aim is 512 thread blocks for a product
/// that is not gated: about four for each multiprocessor of an H200, which can run five blocks of the kernel
/// for 8 rows at the same time. A gated product has the same splits and twice as many blocks.
constexpr column_splits split_columns(std::uint32_t num_rows, std::uint32_t num_cols) {
  constexpr std::uint32_t wanted_blocks = 512, rows_of_block = stream_warps * stream_strips * strip_rows;
  const auto pieces = [](std::uint32_t num, std::uint32_t of) { return num / of + (num % of != 0 ? 1 : 0); };
  const std::uint32_t num_units = std::max(pieces(num_cols, split_cols), 1U);
  const std::uint32_t row_blocks = std::max(pieces(num_rows, rows_of_block), 1U);
  const std::uint32_t wanted = std::min(pieces(wanted_blocks, row_blocks), num_units);
  const std::uint32_t units_of_split = pieces(num_units, wanted);
  return {units_of_split * tiles_of_split_unit, pieces(num_units, units_of_split)};
}

} // namespace paceline::gpu
