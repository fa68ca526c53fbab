#include "runtime/model/kv_model.hpp"

#include "runtime/base/check.hpp"

#include <string>

namespace paceline::model {

void check_batch(const device::row_batch& batch, const kv_storage& kv) {
  for (const device::sequence_kv& sequence : batch.sequences)
    for (const block_id block : sequence.blocks)
      PACELINE_CHECK(block.value < kv.num_blocks(), "block " + to_string(block) + " is not of the pool");
  for (const device::batch_entry& row : batch.rows) {
    PACELINE_CHECK(row.sequence < batch.sequences.size(), "row of sequence " + std::to_string(row.sequence));
    const std::uint64_t num_slots =
        batch.sequences[row.sequence].blocks.size() * std::uint64_t{kv.block_size()};
    PACELINE_CHECK(row.slot.value < num_slots,
                   "slot " + to_string(row.slot) + " is beyond the sequence's blocks");
    PACELINE_CHECK(row.path_length <= row.position.value + std::uint64_t{1} &&
                       row.path_begin <= batch.paths.size() &&
                       row.path_length <= batch.paths.size() - row.path_begin,
                   "path of the row at position " + to_string(row.position));
    PACELINE_CHECK(row.positions_back <= row.position.value,
                   "the row at position " + to_string(row.position) + " is rotated by an earlier one by " +
                       std::to_string(row.positions_back));
    PACELINE_CHECK(row.position.value + std::uint64_t{1} - row.path_length <= num_slots,
                   "position " + to_string(row.position) + " is beyond the sequence's blocks");
    for (const kv_slot slot : batch.paths.subspan(row.path_begin, row.path_length))
      PACELINE_CHECK(slot.value < num_slots, "slot " + to_string(slot) + " is beyond the sequence's blocks");
  }
}

} // namespace paceline::model
