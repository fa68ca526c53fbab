#include "tests/support/hash_head.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <vector>

namespace paceline::test {

namespace {

model::hash_model_config with_salt(model::hash_model_config config, std::uint64_t salt) {
  config.salt += salt;
  return config;
}

} // namespace

hash_head::hash_head(const model::hash_model_config& target, std::uint64_t salt, hash_head_shape shape)
    : states_(target), logits_(with_salt(target, salt)), shape_(shape), taps_{layer_index{target.num_layers}},
      info_(states_.info()) {
  PACELINE_CHECK(target.memory == 0, "the state of such a model is not its context");
  info_.kv_bytes_per_token += info_.hidden_size * sizeof(float);
}

model::head_traits hash_head::traits() const noexcept {
  if (shape_ == hash_head_shape::attending) return {};
  const bool parallel = shape_ == hash_head_shape::parallel;
  return {.max_levels = max_levels, .is_parallel = parallel, .has_cells = !parallel, .reads_context = false};
}

std::unique_ptr<model::kv_storage> hash_head::make_kv_storage(std::uint32_t num_blocks,
                                                              std::uint32_t block_size,
                                                              std::span<const layer_index>) const {
  PACELINE_CHECK(traits().has_cells, "heads without cells have no pool");
  return states_.make_kv_storage(num_blocks, block_size, taps_);
}

/// The row of position i reads the target's state at i, which the row of position i - 1 has computed as well.
bool hash_head::sees_its_text(const device::row_batch& batch, std::size_t row, std::span<const float> read,
                              const model::kv_storage& kv) const {
  const device::batch_entry& entry = batch.rows[row];
  if (entry.position.value == 0) return true;
  const kv_slot before = device::slot_of(batch, entry, token_position{entry.position.value - 1});
  const auto cell = device::cell_of(batch.sequences[entry.sequence], before, kv.block_size());
  const model::feature_cells& own = *kv.features();
  return std::ranges::equal(read, std::span(own.values + cell * own.width(), read.size()));
}

void hash_head::forward(device::ops&, const device::row_batch& batch, const model::head_features& features,
                        model::kv_storage* kv, const model::head_outputs& outputs) const {
  const bool of_target = features.of_target != nullptr;
  PACELINE_CHECK(traits().has_cells == (kv != nullptr) && (kv != nullptr || of_target), "cells of the head");
  PACELINE_CHECK(std::ranges::count(features.levels, of_target ? 0U : features.levels.front()) ==
                     static_cast<std::ptrdiff_t>(batch.rows.size()),
                 "rows of one level, and of the text if they read the target");
  const model::feature_cells& from = of_target ? *features.of_target : *kv->features();
  const std::size_t place = of_target ? from.place_of(taps_[0]) * from.hidden_size : 0;
  const std::vector<std::uint32_t> cells =
      kv != nullptr ? model::cells_of(batch, kv->block_size()) : std::vector<std::uint32_t>();
  std::span<float> out = outputs.logits;
  std::size_t next_output = 0;
  for (std::size_t r = 0; r < batch.rows.size(); ++r) {
    const float* const read = from.values + features.cells[r] * from.width() + place;
    const std::span state_before(read, from.hidden_size);
    const std::uint32_t position = traits().reads_context // that of its token
                                       ? batch.rows[r].position.value + 1
                                       : model::hash_model::position_of(state_before).value + 1;
    std::vector<float> state =
        states_.next_state(state_before, batch.rows[r].token, token_position{position});
    const bool attends = shape_ == hash_head_shape::attending && of_target;
    if (attends && !sees_its_text(batch, r, state_before, *kv))
      state = states_.next_state(state, batch.rows[r].token, token_position{position});
    if (kv != nullptr) std::ranges::copy(state, kv->features()->values + cells[r] * kv->features()->width());
    if (next_output == outputs.logit_rows.size() || outputs.logit_rows[next_output] != r) continue;
    ++next_output;
    for (std::uint32_t level = 0; level < outputs.num_levels; ++level) {
      const std::vector<float> logits = logits_.logits_of_state(state);
      std::ranges::copy(logits, out.begin());
      out = out.subspan(logits.size());
      const auto likeliest = std::ranges::max_element(logits) - logits.begin();
      state = states_.next_state(state, token_id{static_cast<std::int32_t>(likeliest)},
                                 token_position{position + 1 + level});
    }
  }
}

} // namespace paceline::test
