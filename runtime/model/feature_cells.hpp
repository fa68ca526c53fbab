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

/// Hidden states ("features") beside the cells of a KV pool, for drafters that read them (EAGLE, Li et al.
/// 2024, arXiv:2401.15077, section 3). Every pass writes the hidden states of its rows at the rows' slots. So
/// features are rolled back, moved, shared and forgotten together with the keys and values of the same
/// tokens.
///
/// Cell c of block b is row b * block_size + c of `values`; it holds one vector of `hidden_size` floats for
/// each tap, in the order of `taps`. A view: the pool owns the memory.
struct feature_cells {
  float* values = nullptr; ///< device memory, [num_blocks * block_size][width()]
  /// For each tap, the layer after which the residual stream is stored. The value num_layers means: after the
  /// final norm.
  std::vector<layer_index> taps;
  std::uint32_t hidden_size = 0;
  std::uint32_t num_blocks = 0;
  std::uint32_t block_size = 0;

  std::size_t width() const noexcept { return taps.size() * hidden_size; }
  std::uint64_t bytes_per_token() const noexcept { return width() * sizeof(float); }
  /// Index of `layer` among the taps. Throws check_failure if the layer is not tapped.
  std::size_t place_of(layer_index layer) const;

  /// Writes vector number `tap` of all rows of a pass from `x`, [num_rows][hidden_size], rows `x_stride`
  /// values apart. `cells`: the cells of the rows (`cells_of`).
  void write(device::ops& ops, std::span<const std::uint32_t> cells, std::size_t tap, const float* x,
             std::size_t x_stride) const;
  /// Copies vector number `tap` of some cells to rows of `out`, `stride` values apart.
  void read(device::ops& ops, std::span<const std::uint32_t> cells, std::size_t tap, float* out,
            std::size_t stride) const;
  /// Copies the features of cells within the pool, one copy after another. Uses the program's scratch memory.
  void copy(device::ops& ops, std::span<const device::kv_copy> copies) const;
};

/// For each row of a pass, the index of its cell in a pool of blocks of `block_size` cells.
std::vector<std::uint32_t> cells_of(const device::row_batch& batch, std::uint32_t block_size);

} // namespace paceline::model
