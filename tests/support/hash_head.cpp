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

hash_head::hash_head(const model::hash_model_config& target, std::uint64_t salt)
    : states_(target), logits_(with_salt(target, salt)), taps_{layer_index{target.num_layers}},
      info_(states_.info()) {
  PACELINE_CHECK(target.memory == 0, "the state of such a model is not its context");
  info_.kv_bytes_per_token += info_.hidden_size * sizeof(float);
}

std::unique_ptr<model::kv_storage> hash_head::make_kv_storage(std::uint32_t num_blocks,
                                                              std::uint32_t block_size,
                                                              std::span<const layer_index>) const {
  return states_.make_kv_storage(num_blocks, block_size, taps_);
}

void hash_head::forward(device::ops&, const device::row_batch& batch, const model::head_features& features,
                        model::kv_storage* kv, const model::head_outputs& outputs) const {
  const model::feature_cells& own = *kv->features();
  const model::feature_cells& from = features.of_target != nullptr ? *features.of_target : own;
  const std::size_t place = features.of_target != nullptr ? from.place_of(taps_[0]) * from.hidden_size : 0;
  const std::vector<std::uint32_t> cells = model::cells_of(batch, kv->block_size());
  std::size_t next_output = 0;
  for (std::size_t r = 0; r < batch.rows.size(); ++r) {
    const float* const read = from.values + features.cells[r] * from.width() + place;
    const std::vector<float> state =
        states_.next_state({read, from.hidden_size}, batch.rows[r].token,
                           token_position{batch.rows[r].position.value + 1}); // that of its token
    std::ranges::copy(state, own.values + cells[r] * own.width());
    if (next_output == outputs.logit_rows.size() || outputs.logit_rows[next_output] != r) continue;
    const std::vector<float> logits = logits_.logits_of_state(state);
    std::ranges::copy(logits,
                      outputs.logits.begin() + static_cast<std::ptrdiff_t>(next_output++ * info_.vocab_size));
  }
}

} // namespace paceline::test
