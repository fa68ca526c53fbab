#pragma once

#include "runtime/device/op_kv.hpp"
#include "runtime/device/row_batch.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

namespace paceline::test {

/// Sequences whose blocks are at random places of a pool, and rows of passes over them.
class paged_sequences {
 public:
  paged_sequences(std::uint32_t block_size, std::uint32_t num_blocks, std::uint32_t seed)
      : block_size_(block_size), free_(num_blocks) {
    std::iota(free_.begin(), free_.end(), 0U);
    std::shuffle(free_.begin(), free_.end(), std::mt19937(seed));
  }

  /// Adds a sequence with `num_slots` cells; throws if the pool has too few blocks.
  std::uint32_t add_sequence(std::uint32_t num_slots) {
    std::vector<block_id> blocks;
    for (std::uint32_t slots = 0; slots < num_slots; slots += block_size_) {
      blocks.emplace_back(free_.at(free_.size() - 1));
      free_.pop_back();
    }
    tables_.push_back(std::move(blocks));
    num_slots_.push_back(num_slots);
    sequences_.clear();
    for (const auto& table : tables_) sequences_.push_back({table});
    return num_sequences() - 1;
  }

  std::uint32_t num_sequences() const { return static_cast<std::uint32_t>(tables_.size()); }

  /// Rows at positions [begin, end), each in the slot of its position.
  std::vector<device::batch_entry> chain_rows(std::uint32_t sequence, std::uint32_t begin,
                                              std::uint32_t end) const {
    std::vector<device::batch_entry> rows;
    for (std::uint32_t p = begin; p < end; ++p)
      rows.push_back({token_id{0}, token_position{p}, kv_slot{p}, sequence, 0, 0});
    return rows;
  }

  /// Rows like chain_rows that all see the whole range: each has position end - 1, and its rotary position is
  /// that of its slot.
  std::vector<device::batch_entry> block_rows(std::uint32_t sequence, std::uint32_t begin,
                                              std::uint32_t end) const {
    auto rows = chain_rows(sequence, begin, end);
    for (auto& row : rows) {
      row.positions_back = end - 1 - row.position.value;
      row.position = token_position{end - 1};
    }
    return rows;
  }

  /// One row for each slot.
  std::vector<device::batch_entry> every_slot(std::uint32_t sequence) const {
    return chain_rows(sequence, 0, num_slots_[sequence]);
  }

  /// A draft tree after `base` committed positions. Node i is in slot base + i; parents[i] is its parent's
  /// number, or -1 for the last committed token.
  std::vector<device::batch_entry> tree_rows(std::uint32_t sequence, std::uint32_t base,
                                             const std::vector<std::int32_t>& parents) {
    std::vector<device::batch_entry> rows;
    std::vector<std::vector<kv_slot>> path_of;
    for (std::size_t i = 0; i < parents.size(); ++i) {
      std::vector<kv_slot> path;
      if (parents[i] >= 0) path = path_of[static_cast<std::size_t>(parents[i])];
      path.emplace_back(base + static_cast<std::uint32_t>(i));
      const auto length = static_cast<std::uint32_t>(path.size());
      rows.push_back({token_id{0}, token_position{base + length - 1}, path.back(), sequence,
                      static_cast<std::uint32_t>(paths_.size()), length});
      paths_.insert(paths_.end(), path.begin(), path.end());
      path_of.push_back(std::move(path));
    }
    return rows;
  }

  /// A batch that refers to `rows`, which must outlive it. Valid until the next tree_rows or add_sequence.
  device::row_batch batch(const std::vector<device::batch_entry>& rows) const {
    return {rows, sequences_, paths_};
  }

  /// The copy of one slot's cell to another slot of the sequence, as compaction makes it.
  device::kv_copy copy_of(std::uint32_t sequence, std::uint32_t from, std::uint32_t to) const {
    const auto& blocks = tables_[sequence];
    return {blocks[from / block_size_], from % block_size_, blocks[to / block_size_], to % block_size_, 1};
  }

  /// Makes that copy in the host's memory of `layer`.
  void copy_cell(const device::kv_layer& layer, std::uint32_t sequence, std::uint32_t from,
                 std::uint32_t to) const {
    copy_cell(layer, layer, sequence, from, to);
  }
  /// The same from `source`, a layer of the same shape, to `layer`.
  void copy_cell(const device::kv_layer& layer, const device::kv_layer& source, std::uint32_t sequence,
                 std::uint32_t from, std::uint32_t to) const {
    const device::kv_copy copy = copy_of(sequence, from, to);
    const kv_type_traits traits = traits_of(layer.type);
    const std::size_t size = traits.value_bytes;
    auto* const keys = static_cast<std::byte*>(layer.keys);
    auto* const values = static_cast<std::byte*>(layer.values);
    const auto* const old_keys = static_cast<const std::byte*>(source.keys);
    const auto* const old_values = static_cast<const std::byte*>(source.values);
    for (std::uint32_t h = 0; h < layer.num_heads; ++h) {
      for (std::uint32_t d = 0; d < layer.head_dim; ++d) {
        std::memcpy(keys + layer.key_index(copy.to_block, h, copy.to_offset, d) * size,
                    old_keys + layer.key_index(copy.from_block, h, copy.from_offset, d) * size, size);
        std::memcpy(values + layer.value_index(copy.to_block, h, copy.to_offset, d) * size,
                    old_values + layer.value_index(copy.from_block, h, copy.from_offset, d) * size, size);
      }
      if (traits.scale_bytes == 0) continue;
      const std::size_t to_scale = layer.scale_index(copy.to_block, h, copy.to_offset);
      const std::size_t from_scale = layer.scale_index(copy.from_block, h, copy.from_offset);
      layer.key_scales[to_scale] = source.key_scales[from_scale];
      layer.value_scales[to_scale] = source.value_scales[from_scale];
    }
  }

 private:
  std::uint32_t block_size_;
  std::vector<std::uint32_t> free_;
  std::vector<std::vector<block_id>> tables_;
  std::vector<std::uint32_t> num_slots_;
  std::vector<device::sequence_kv> sequences_;
  std::vector<kv_slot> paths_;
};

/// States of a pass over consecutive rows of one text, of which the last is kept.
inline std::vector<device::row_state> chain_states(std::size_t num_rows, std::optional<state_slot> read,
                                                   state_slot write) {
  std::vector<device::row_state> states(num_rows);
  for (std::size_t r = 0; r < num_rows; ++r) states[r].parent = static_cast<std::int32_t>(r) - 1;
  states.front().read = read;
  states.back().write = write;
  return states;
}

} // namespace paceline::test
