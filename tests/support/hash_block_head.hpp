#pragma once

#include "runtime/model/hash_model.hpp"
#include "runtime/model/heads/draft_head.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace paceline::test {

/// A draft head with block rows for a hash model that reads its whole context (memory = 0). A row of the text
/// computes the hidden state of its token, as in `hash_head`. The row of level l continues from what the
/// newest row left in its cell, along the likeliest tokens, and gives the logits of the l-th token. These are
/// right every time at temperature 0. The head throws check_failure if a block row has a wrong token,
/// feature, level or position, or sees cells other than those of the block. If the cell before a row of the
/// text does not belong to its text, the row's result is wrong.
class hash_block_head final : public model::draft_head {
 public:
  hash_block_head(const model::hash_model_config& target, const model::head_traits& traits);

  const model::model_info& info() const noexcept override { return info_; }
  model::head_traits traits() const noexcept override { return traits_; }
  std::unique_ptr<model::kv_storage> make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                                     std::span<const layer_index> taps = {}) const override;
  std::span<const layer_index> taps() const noexcept override { return taps_; }
  std::span<const token_id> target_ids() const noexcept override { return {}; }
  std::uint32_t num_embedded() const noexcept override { return info_.vocab_size; }
  void forward(device::ops& ops, const device::row_batch& batch, const model::head_features& features,
               model::kv_storage* kv, const model::head_outputs& outputs) const override;

  /// The hidden states after each of `tokens`.
  std::vector<std::vector<float>> states_of(std::span<const token_id> tokens) const;

  mutable std::vector<std::size_t> rows_of_passes;
  mutable bool fail_next_pass = false;

 private:
  bool sees_its_text(const device::row_batch& batch, const model::head_features& features,
                     const model::feature_cells& own, std::size_t row) const;
  void check_block_row(const device::row_batch& batch, const model::head_features& features,
                       const model::feature_cells& own, std::size_t row) const;
  std::vector<float> logits_of_level(std::vector<float> state, std::uint32_t first_position,
                                     std::uint32_t level) const;

  model::hash_model states_; ///< the target
  model::head_traits traits_;
  std::array<layer_index, 1> taps_;
  model::model_info info_;
};

} // namespace paceline::test
