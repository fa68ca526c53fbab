#include "runtime/model/feature_cells.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/op_elementwise.hpp"
#include "runtime/device/ops.hpp"

#include <algorithm>
#include <unordered_set>

namespace paceline::model {

namespace {

/// Moves several cells in one operation. No cell of `from` may be in `to`.
void move_cells(device::ops& ops, const feature_cells& cells, std::vector<std::uint32_t>& from,
                std::vector<std::uint32_t>& to) {
  if (from.empty()) return;
  const auto count = static_cast<std::uint32_t>(from.size());
  const auto width = static_cast<std::uint32_t>(cells.width());
  float* const between = ops.scratch(std::size_t{count} * width).data();
  ops.gather({between, width, cells.values, width, from.data(), count, width});
  ops.scatter({cells.values, width, to.data(), between, width, count, width});
  from.clear();
  to.clear();
}

} // namespace

std::size_t feature_cells::place_of(layer_index layer) const {
  const auto found = std::find(taps.begin(), taps.end(), layer);
  PACELINE_CHECK(found != taps.end(), "layer " + to_string(layer) + " is not tapped");
  return static_cast<std::size_t>(found - taps.begin());
}

void feature_cells::write(device::ops& ops, std::span<const std::uint32_t> cells, std::size_t tap,
                          const float* x, std::size_t x_stride) const {
  ops.scatter({values + tap * hidden_size, width(), cells.data(), x, x_stride,
               static_cast<std::uint32_t>(cells.size()), hidden_size});
}

void feature_cells::read(device::ops& ops, std::span<const std::uint32_t> cells, std::size_t tap, float* out,
                         std::size_t stride) const {
  ops.gather({out, stride, values + tap * hidden_size, width(), cells.data(),
              static_cast<std::uint32_t>(cells.size()), hidden_size});
}

void feature_cells::copy(device::ops& ops, std::span<const device::kv_copy> copies) const {
  std::vector<std::uint32_t> from, to;
  std::unordered_set<std::uint32_t> written;
  for (const device::kv_copy& copy : copies)
    for (std::uint32_t i = 0; i < copy.num_cells; ++i) {
      const std::uint32_t source = copy.from_block.value * block_size + copy.from_offset + i;
      const std::uint32_t target = copy.to_block.value * block_size + copy.to_offset + i;
      if (source == target) continue;
      // A cell that is read and written, or written twice, needs the moves in order.
      if (written.contains(source) || written.contains(target)) {
        move_cells(ops, *this, from, to);
        written.clear();
      }
      from.push_back(source);
      to.push_back(target);
      written.insert(target);
    }
  move_cells(ops, *this, from, to);
}

std::vector<std::uint32_t> cells_of(const device::row_batch& batch, std::uint32_t block_size) {
  std::vector<std::uint32_t> cells;
  cells.reserve(batch.rows.size());
  for (const device::batch_entry& row : batch.rows)
    cells.push_back(
        static_cast<std::uint32_t>(device::cell_of(batch.sequences[row.sequence], row.slot, block_size)));
  return cells;
}

} // namespace paceline::model
