#pragma once

#include "runtime/model/hash_model.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace paceline::test {

/// A hash model with other token ids, as if it had another model's vocabulary. `inner_of[id]` is the hash
/// model's token for `id`, or -1 if it has none. Such a token has the logit -infinity and is read as 0.
class renamed_model final : public model::language_model {
 public:
  renamed_model(const model::hash_model_config& config, std::vector<std::int32_t> inner_of)
      : inner_(config), inner_of_(std::move(inner_of)), info_(inner_.info()) {
    info_.vocab_size = static_cast<std::uint32_t>(inner_of_.size());
  }

  const model::model_info& info() const noexcept override { return info_; }
  std::unique_ptr<model::kv_storage> make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                                     std::span<const layer_index> taps = {}) const override {
    return inner_.make_kv_storage(num_blocks, block_size, taps);
  }
  void forward(device::ops& ops, const device::row_batch& batch, model::kv_storage& kv,
               const model::forward_outputs& outputs) const override {
    std::vector<device::batch_entry> rows(batch.rows.begin(), batch.rows.end());
    for (auto& row : rows)
      row.token.value = std::max(inner_of_.at(static_cast<std::size_t>(row.token.value)), 0);
    const std::size_t width = inner_.info().vocab_size;
    std::vector<float> logits(outputs.logit_rows.size() * width);
    inner_.forward(ops, {rows, batch.sequences, batch.paths}, kv, {outputs.logit_rows, logits, outputs.taps});
    for (std::size_t row = 0; row < outputs.logit_rows.size(); ++row)
      for (std::size_t id = 0; id < inner_of_.size(); ++id)
        outputs.logits[row * inner_of_.size() + id] =
            inner_of_[id] < 0 ? -std::numeric_limits<float>::infinity()
                              : logits[row * width + static_cast<std::size_t>(inner_of_[id])];
  }

 private:
  model::hash_model inner_;
  std::vector<std::int32_t> inner_of_;
  model::model_info info_;
};

} // namespace paceline::test
