#pragma once

#include "runtime/device/row_batch.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::device {

/// Where a tap of a short convolution finds the input of an earlier row. Plain numbers, because devices copy
/// it.
struct conv_input {
  enum class source : std::uint32_t {
    zeros, ///< before the text's first row
    row,   ///< of this pass
    slot,  ///< of the state that the text's first row in this pass reads
  };

  source from = source::zeros;
  std::uint32_t row_or_slot = 0;
  std::uint32_t record = 0; ///< index among the slot's num_taps - 1 inputs, oldest first

  bool operator==(const conv_input&) const = default;
};

/// Where each row finds the inputs before its own, oldest first: [num_rows][num_taps - 1]. A row with a
/// parent has the parent's inputs without the oldest one, and then the parent's own input. A row without a
/// parent has the inputs in the slot that it reads, or zeros. Requires rows as `check_states` accepts them,
/// and at least two taps.
std::vector<conv_input> plan_conv(std::span<const row_state> rows, std::uint32_t num_taps);

} // namespace paceline::device
