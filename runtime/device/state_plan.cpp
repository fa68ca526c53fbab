#include "runtime/device/state_plan.hpp"

#include <cstddef>
#include <ranges>

namespace paceline::device {

namespace {

std::int32_t slot_number(const std::optional<state_slot>& slot, std::int32_t none) noexcept {
  return slot ? static_cast<std::int32_t>(slot->value) : none;
}

/// Plans the steps of one text.
class text_planner {
 public:
  text_planner(std::span<const row_state> rows, std::vector<state_step>& steps)
      : rows_(rows), steps_(steps) {}

  void add(std::uint32_t row) {
    const std::int32_t parent = rows_[row].parent;
    if (parent >= 0 && parent != newest_ && !rows_[static_cast<std::size_t>(parent)].write) repeat(parent);
    push(row, slot_number(rows_[row].write, state_step::nowhere), 0);
  }

 private:
  /// Computes the state of `row` again, and the states of earlier rows that no slot holds.
  void repeat(std::int32_t row) {
    std::vector<std::int32_t> lost;
    for (; row >= 0 && row != newest_ && !rows_[static_cast<std::size_t>(row)].write;
         row = rows_[static_cast<std::size_t>(row)].parent)
      lost.push_back(row);
    for (const std::int32_t one : lost | std::views::reverse)
      push(static_cast<std::uint32_t>(one), state_step::nowhere, 1);
  }

  void push(std::uint32_t row, std::int32_t to, std::uint32_t repeated) {
    const row_state& state = rows_[row];
    std::int32_t from = slot_number(state.read, state_step::zeros);
    if (state.parent >= 0)
      from = state.parent == newest_
                 ? state_step::previous
                 : slot_number(rows_[static_cast<std::size_t>(state.parent)].write, state_step::zeros);
    steps_.push_back({row, from, to, repeated});
    newest_ = static_cast<std::int32_t>(row);
  }

  std::span<const row_state> rows_;
  std::vector<state_step>& steps_;
  std::int32_t newest_ = -1; ///< the row of the last step
};

} // namespace

state_plan plan_states(std::span<const row_state> rows) {
  std::vector<std::uint32_t> text_of(rows.size());
  std::vector<std::vector<std::uint32_t>> texts;
  for (std::uint32_t r = 0; r < rows.size(); ++r) {
    if (rows[r].parent < 0) texts.emplace_back();
    text_of[r] = rows[r].parent < 0 ? static_cast<std::uint32_t>(texts.size()) - 1
                                    : text_of[static_cast<std::size_t>(rows[r].parent)];
    texts[text_of[r]].push_back(r);
  }
  state_plan plan;
  plan.first.push_back(0);
  for (const auto& text : texts) {
    text_planner planner(rows, plan.steps);
    for (const std::uint32_t row : text) planner.add(row);
    plan.first.push_back(static_cast<std::uint32_t>(plan.steps.size()));
  }
  return plan;
}

} // namespace paceline::device
