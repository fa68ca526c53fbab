#pragma once

#include "runtime/model/hash_model.hpp"
#include "runtime/model/heads/draft_head.hpp"

#include <array>
#include <memory>

namespace paceline::test {

/// A draft head for a hash model that reads its whole context (memory = 0): from the hidden state of a
/// position and the next token it computes the next hidden state as the target does. So it is right every
/// time if each row has the feature of its own position, its own token and its own position, and wrong
/// otherwise. With `salt` other than the target's its logits are another model's.
class hash_head final : public model::draft_head {
 public:
  explicit hash_head(const model::hash_model_config& target, std::uint64_t salt = 0);

  const model::model_info& info() const noexcept override { return info_; }
  std::unique_ptr<model::kv_storage> make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                                     std::span<const layer_index> taps = {}) const override;
  std::span<const layer_index> taps() const noexcept override { return taps_; }
  std::span<const token_id> target_ids() const noexcept override { return {}; }
  std::uint32_t num_embedded() const noexcept override { return info_.vocab_size; }
  void forward(device::ops& ops, const device::row_batch& batch, const model::head_features& features,
               model::kv_storage* kv, const model::head_outputs& outputs) const override;

 private:
  model::hash_model states_; ///< the target
  model::hash_model logits_;
  std::array<layer_index, 1> taps_;
  model::model_info info_;
};

} // namespace paceline::test
