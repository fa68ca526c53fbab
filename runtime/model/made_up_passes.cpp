#include "runtime/model/made_up_passes.hpp"

#include "runtime/device/op_choose.hpp"
#include "runtime/device/ops.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace paceline::model {

made_up_passes::made_up_passes(const language_model& model, kv_storage& kv, std::vector<block_id> blocks)
    : model_(&model), kv_(&kv), blocks_(std::move(blocks)) {}

std::uint32_t made_up_passes::num_positions() const noexcept {
  return static_cast<std::uint32_t>(blocks_.size()) * kv_->block_size();
}

device::batch_entry made_up_passes::row_at(std::uint32_t position) const {
  const auto vocabulary = std::min(model_->info().vocab_size, 30000U);
  const auto id = static_cast<std::int32_t>((position * 7919U + 13U) % vocabulary);
  return {token_id{id}, token_position{position}, kv_slot{position}, 0, 0, 0};
}

/// Every row leaves a state as in a verification, as long as there are slots.
std::vector<device::row_state> made_up_passes::states_of(std::uint32_t num_rows) const {
  std::vector<device::row_state> states(num_rows);
  for (std::uint32_t r = 0; r < num_rows; ++r) {
    states[r].parent = static_cast<std::int32_t>(r) - 1;
    if (r < kv_->num_state_slots()) states[r].write = state_slot{r};
  }
  return states;
}

void made_up_passes::run(device::ops& ops, std::uint32_t begin, std::uint32_t end) {
  std::vector<device::batch_entry> rows;
  for (std::uint32_t position = begin; position < end; ++position) rows.push_back(row_at(position));
  const auto num_rows = static_cast<std::uint32_t>(rows.size());
  std::vector<std::uint32_t> wanted{num_rows - 1};
  if (num_rows <= device::max_draft_nodes) {
    wanted.resize(num_rows);
    std::iota(wanted.begin(), wanted.end(), 0U);
  }
  const device::sequence_kv sequence{blocks_};
  std::vector<device::row_state> states;
  if (model_->info().state_bytes != 0) states = states_of(num_rows);
  const device::row_batch batch{rows, {&sequence, 1}, {}, nullptr, 0, states};
  if (model_->info().logits_by_ops && ops.can_choose()) return run_chosen(ops, batch, wanted);
  const std::size_t vocabulary = model_->info().vocab_size;
  // Made once, so that the allocation does not count in later measurements.
  if (logits_.empty()) logits_.resize(device::max_draft_nodes * vocabulary);
  const auto num_logits = wanted.size() * vocabulary;
  model_->forward(ops, batch, *kv_, {wanted, std::span(logits_).first(num_logits), {}});
}

void made_up_passes::run_chosen(device::ops& ops, const device::row_batch& batch,
                                std::span<const std::uint32_t> wanted) {
  std::vector<token_id> draft;
  std::vector<std::int32_t> parents;
  for (std::size_t node = 0; node + 1 < wanted.size(); ++node) {
    draft.push_back(batch.rows[node + 1].token);
    parents.push_back(static_cast<std::int32_t>(node) - 1);
  }
  device::token_choice request;
  request.draft_tokens = draft, request.parents = parents;
  request.position = token_position{batch.rows[wanted.front()].position.value + 1};
  request.temperature = 0;
  device::chosen_run chosen;
  const device_choices choices{wanted, {&request, 1}, {&chosen, 1}, {}};
  model_->forward(ops, batch, *kv_, {{}, {}, {}, &choices});
}

} // namespace paceline::model
