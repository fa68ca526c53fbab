#include "tests/support/hash_block_head.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace paceline::test {

namespace {

std::vector<float> feature_at(const model::feature_cells& cells, std::uint64_t cell) {
  const float* const at = cells.values + cell * cells.width();
  return {at, at + cells.hidden_size};
}

} // namespace

hash_block_head::hash_block_head(const model::hash_model_config& target, const model::head_traits& traits)
    : states_(target), traits_(traits), taps_{layer_index{target.num_layers}}, info_(states_.info()) {
  PACELINE_CHECK(target.memory == 0, "the state of such a model is not its context");
  info_.kv_bytes_per_token += info_.hidden_size * sizeof(float);
}

std::unique_ptr<model::kv_storage> hash_block_head::make_kv_storage(std::uint32_t num_blocks,
                                                                    std::uint32_t block_size,
                                                                    std::span<const layer_index>) const {
  return states_.make_kv_storage(num_blocks, block_size, taps_);
}

std::vector<std::vector<float>> hash_block_head::states_of(std::span<const token_id> tokens) const {
  std::vector<std::vector<float>> states;
  std::vector<float> state(info_.hidden_size);
  for (const token_id token : tokens) {
    state = states_.next_state(state, token, token_position{static_cast<std::uint32_t>(states.size())});
    states.push_back(state);
  }
  return states;
}

/// The cell before a row of the text must be that of its text: the row reads the target's state there.
bool hash_block_head::sees_its_text(const device::row_batch& batch, const model::head_features& features,
                                    const model::feature_cells& own, std::size_t row) const {
  const device::batch_entry& entry = batch.rows[row];
  if (features.levels[row] > 0 || entry.position.value == 0) return true;
  const kv_slot before = device::slot_of(batch, entry, token_position{entry.position.value - 1});
  const auto cell = device::cell_of(batch.sequences[entry.sequence], before, own.block_size);
  return feature_at(own, cell) == feature_at(*features.of_target, features.cells[row]);
}

/// The cells that the row sees must be those that the rows of its block have left in this pass.
void hash_block_head::check_block_row(const device::row_batch& batch, const model::head_features& features,
                                      const model::feature_cells& own, std::size_t row) const {
  const device::batch_entry& entry = batch.rows[row];
  const std::uint32_t number = features.levels[row];
  PACELINE_CHECK(number <= traits_.num_block_rows && number <= entry.rotary_position().value,
                 "block row " + std::to_string(number));
  const std::uint32_t newest = entry.rotary_position().value - number;
  PACELINE_CHECK(entry.position.value == newest + (traits_.block_is_causal ? number : traits_.num_block_rows),
                 "block row " + std::to_string(number) + " sees up to " + to_string(entry.position));
  const std::vector<float> read = feature_at(*features.of_target, features.cells[row]);
  for (std::uint32_t position = newest; position <= entry.position.value; ++position) {
    const kv_slot slot = device::slot_of(batch, entry, token_position{position});
    const auto left = feature_at(own, device::cell_of(batch.sequences[entry.sequence], slot, own.block_size));
    PACELINE_CHECK(left == states_.next_state(read, entry.token, token_position{position + 1}),
                   "the cell of position " + std::to_string(position) + " is not of the block");
  }
}

std::vector<float> hash_block_head::logits_of_level(std::vector<float> state, std::uint32_t first_position,
                                                    std::uint32_t level) const {
  std::vector<float> logits = states_.logits_of_state(state);
  for (std::uint32_t step = 0; step < level; ++step) {
    const auto likeliest = std::ranges::max_element(logits) - logits.begin();
    state = states_.next_state(state, token_id{static_cast<std::int32_t>(likeliest)},
                               token_position{first_position + step});
    logits = states_.logits_of_state(state);
  }
  return logits;
}

void hash_block_head::forward(device::ops&, const device::row_batch& batch,
                              const model::head_features& features, model::kv_storage* kv,
                              const model::head_outputs& outputs) const {
  rows_of_passes.push_back(batch.rows.size());
  if (std::exchange(fail_next_pass, false)) throw std::runtime_error("lost");
  model::check_batch(batch, *kv);
  PACELINE_CHECK(features.of_target != nullptr && outputs.num_levels == 1, "a block is run with the text");
  PACELINE_CHECK(outputs.logits.size() == outputs.logit_rows.size() * info_.vocab_size, "room for logits");
  const model::feature_cells& own = *kv->features();
  const std::vector<std::uint32_t> cells = model::cells_of(batch, kv->block_size());
  for (std::size_t r = 0; r < batch.rows.size(); ++r) {
    const device::batch_entry& row = batch.rows[r];
    const token_position position{row.rotary_position().value + 1}; // that of its token
    auto state = states_.next_state(feature_at(*features.of_target, features.cells[r]), row.token, position);
    if (!sees_its_text(batch, features, own, r)) state = states_.next_state(state, row.token, position);
    std::ranges::copy(state, own.values + std::size_t{cells[r]} * own.width());
  }
  for (std::size_t r = 0; r < batch.rows.size(); ++r)
    if (features.levels[r] > 0) check_block_row(batch, features, own, r);
  for (std::size_t i = 0; i < outputs.logit_rows.size(); ++i) {
    const std::uint32_t r = outputs.logit_rows[i];
    const device::batch_entry& row = batch.rows[r];
    const std::uint32_t newest = row.rotary_position().value - features.levels[r];
    PACELINE_CHECK(features.levels[r] >= traits_.first_level_row, "a row before level 0");
    const auto cell = device::cell_of(batch.sequences[row.sequence], kv_slot{newest}, kv->block_size());
    const std::vector<float> logits =
        logits_of_level(feature_at(own, cell), newest + 2, features.levels[r] - traits_.first_level_row);
    std::ranges::copy(logits, outputs.logits.begin() + static_cast<std::ptrdiff_t>(i * info_.vocab_size));
  }
}

} // namespace paceline::test
