#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/row_batch.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::device {
class ops;
}

namespace paceline::model {

/// Hidden states beside the cells of a KV pool, for drafters that read them ("features", EAGLE, Li et al.
/// 2024, section 3): every pass writes those of its rows at the rows' slots. So they roll back, move, are
/// shared with other requests and are forgotten together with the keys and values of the same tokens.
///
/// Cell c of block b is row b * block_size + c of `values`; it holds one vector of `hidden_size` floats for
/// each tap, in the order of `taps`. A view: the pool owns the memory.
struct feature_cells {
  float* values = nullptr; ///< device memory, [num_blocks * block_size][width()]
  /// Residual stream after this layer; the number of layers: after the final norm.
  std::vector<layer_index> taps;
  std::uint32_t hidden_size = 0;
  std::uint32_t num_blocks = 0;
  std::uint32_t block_size = 0;

  std::size_t width() const noexcept { return taps.size() * hidden_size; }
  std::uint64_t bytes_per_token() const noexcept { return width() * sizeof(float); }
  /// Index of the vector of `layer` among the taps. Throws check_failure if it is not tapped.
  std::size_t place_of(layer_index layer) const;

  /// Writes vector number `tap` of all rows of a pass. `cells`: of the rows (`cells_of`).
  void write(device::ops& ops, std::span<const std::uint32_t> cells, std::size_t tap, const float* x,
             std::size_t x_stride) const;
  /// Copies vector number `tap` of some cells to rows of `out`, `stride` values apart.
  void read(device::ops& ops, std::span<const std::uint32_t> cells, std::size_t tap, float* out,
            std::size_t stride) const;
  /// Moves cells within the pool, in order. Uses the program's scratch memory.
  void copy(device::ops& ops, std::span<const device::kv_copy> copies) const;
};

/// The cells of a pass's rows.
std::vector<std::uint32_t> cells_of(const device::row_batch& batch, std::uint32_t block_size);

} // namespace paceline::model
