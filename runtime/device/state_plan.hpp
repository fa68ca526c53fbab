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

/// The order in which the rows of a pass update recurrent states. A *text* in this plan is a row without a
/// parent in the pass, and all its descendants. Texts are independent of each other. A step starts from
/// zeros, from the state of the previous step, or from a slot, which was filled before the pass or by an
/// earlier step of the same text. If the parent's state is in no slot and the parent is not the row of the
/// previous step, additional steps compute the parent's state again. They start from the nearest ancestor
/// whose state is in a slot or was made by the previous step. If there is none, they start with the first row
/// of the text.
struct state_plan {
  std::vector<state_step> steps;
  std::vector<std::uint32_t> first; ///< [number of texts + 1]: the first step of each text, and their end

  std::uint32_t num_texts() const noexcept { return static_cast<std::uint32_t>(first.size()) - 1; }
};

/// Requires rows as `check_states` accepts them.
state_plan plan_states(std::span<const row_state> rows);

} // namespace paceline::device
