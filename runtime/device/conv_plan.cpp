#include "runtime/device/conv_plan.hpp"

#include <algorithm>
#include <cstddef>

namespace paceline::device {

std::vector<conv_input> plan_conv(std::span<const row_state> rows, std::uint32_t num_taps) {
  using enum conv_input::source;
  const std::uint32_t num_records = num_taps - 1;
  std::vector<conv_input> inputs(rows.size() * num_records);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    conv_input* const own = inputs.data() + r * num_records;
    if (rows[r].parent >= 0) {
      const auto parent = static_cast<std::uint32_t>(rows[r].parent);
      std::copy_n(inputs.data() + std::size_t{parent} * num_records + 1, num_records - 1, own);
      own[num_records - 1] = {row, parent, 0};
    } else if (rows[r].read) {
      for (std::uint32_t k = 0; k < num_records; ++k) own[k] = {slot, rows[r].read->value, k};
    }
  }
  return inputs;
}

} // namespace paceline::device
