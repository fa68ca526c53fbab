#include "runtime/base/check.hpp"
#include "runtime/device/op_kv.hpp"

namespace paceline::device {

void check_copies(const kv_copy_args& args) {
  const kv_layer& to = args.layer;
  const kv_layer& from = args.source();
  PACELINE_CHECK(cells_alike(to, from), "kv_copy: cells of two shapes");
  for (const kv_copy& copy : args.copies)
    PACELINE_CHECK(copy.from_block.value < from.num_blocks && copy.to_block.value < to.num_blocks &&
                       copy.num_cells <= to.block_size &&
                       copy.from_offset <= to.block_size - copy.num_cells &&
                       copy.to_offset <= to.block_size - copy.num_cells,
                   "kv_copy: cells outside the pool");
}

} // namespace paceline::device
