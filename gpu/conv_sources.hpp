#pragma once

#include "runtime/device/row_batch.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::gpu {

/// A place from which a tap of a short convolution reads: row r of the pass is r; zeros are `no_source`;
/// record k of slot s, of num_taps - 1 records a slot, is -2 - (s * (num_taps - 1) + k).
inline constexpr std::int32_t no_source = -1;

/// The sources of all taps before a row's own, oldest first: [num_rows][num_taps - 1].
inline std::vector<std::int32_t> conv_sources(std::span<const device::row_state> rows,
                                              std::uint32_t num_taps) {
  const std::size_t num_records = num_taps - 1;
  std::vector<std::int32_t> sources(rows.size() * num_records, no_source);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::int32_t* const own = sources.data() + r * num_records;
    if (const std::int32_t parent = rows[r].parent; parent >= 0) { // its sources, one place on, and itself
      const std::int32_t* const before = sources.data() + static_cast<std::size_t>(parent) * num_records;
      for (std::size_t k = 0; k + 1 < num_records; ++k) own[k] = before[k + 1];
      own[num_records - 1] = parent;
    } else if (rows[r].read) {
      for (std::size_t k = 0; k < num_records; ++k)
        own[k] = -2 - static_cast<std::int32_t>(rows[r].read->value * num_records + k);
    }
  }
  return sources;
}

/// The slot in which each row leaves its state; -1: it leaves none.
inline std::vector<std::int32_t> conv_slots(std::span<const device::row_state> rows) {
  std::vector<std::int32_t> slots;
  slots.reserve(rows.size());
  for (const device::row_state& row : rows)
    slots.push_back(row.write ? static_cast<std::int32_t>(row.write->value) : -1);
  return slots;
}

} // namespace paceline::gpu
