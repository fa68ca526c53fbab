#pragma once

#include "runtime/device/row_batch.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::device {

/// The update of a recurrent state by one row. Plain numbers, because devices copy it.
struct state_step {
  static constexpr std::int32_t zeros = -1;    ///< `from`: the text begins
  static constexpr std::int32_t previous = -2; ///< `from`: the state that the step before has made
  static constexpr std::int32_t nowhere = -1;

  std::uint32_t row = 0;
  std::int32_t from = zeros;  ///< a slot, `zeros` or `previous`
  std::int32_t to = nowhere;  ///< the slot in which the new state is left, or `nowhere`
  std::uint32_t repeated = 0; ///< not 0: only the state is needed; another step gives the row's output

  bool operator==(const state_step&) const = default;
};

/// The order in which the rows of a pass update states. Texts do not depend on each other. Within a text each
/// step begins with the state of the step before it, or with one in a slot, which may be that of an earlier
/// step. Where a row's parent has left its state nowhere and is not the step before it, the parent's state is
/// computed again, from the nearest row before it whose state is there.
struct state_plan {
  std::vector<state_step> steps;
  std::vector<std::uint32_t> first; ///< [number of texts + 1]: the first step of each text, and their end

  std::uint32_t num_texts() const noexcept { return static_cast<std::uint32_t>(first.size()) - 1; }
};

/// Requires rows as `check_states` accepts them.
state_plan plan_states(std::span<const row_state> rows);

} // namespace paceline::device
