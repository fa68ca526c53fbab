#pragma once

#include "runtime/device/buffer.hpp"
#include "runtime/device/matrix.hpp"
#include "runtime/model/heads/draft_head.hpp"
#include "runtime/model/transformer.hpp"

#include <memory>
#include <vector>

namespace paceline::model {

/// Weights of heads that draft every level from one hidden state. Absent vectors are null.
struct medusa_weights {
  struct layer {
    std::unique_ptr<const device::matrix> linear; ///< [hidden][hidden]
    const float* bias = nullptr;                  ///< [hidden]
  };
  /// Medusa: the layers of each head. Empty for a blockwise head.
  std::vector<std::vector<layer>> heads;
  /// Blockwise: one feed-forward layer for all heads, [heads * inner][hidden] and [heads * hidden][heads *
  /// inner].
  std::unique_ptr<const device::matrix> block_in, block_out;
  const float* block_in_bias = nullptr;
  const float* block_out_bias = nullptr;

  std::vector<std::unique_ptr<const device::matrix>>
      lm_heads;                            ///< for each head, or one for all; empty: the target's
  std::unique_ptr<device::buffer> vectors; ///< memory of all vectors
};

/// Heads that predict all the tokens after the newest one at once, from h, the hidden state (after the
/// target's final norm) of the row that chose the newest token:
///
/// - Medusa (Cai et al. 2024, arXiv:2401.10774, section 2.1): head i starts with z = h; for each of its
///   layers z = z + silu(W z + b); logits = L_i z.
/// - Blockwise parallel decoding (Stern et al. 2018, section 4): [z_1 ; ... ; z_k] = [h ; ... ; h] +
///   W2 relu(W1 h + b1) + b2; logits = L z_i.
///
/// Head i (from 0) predicts the token i + 1 places after the newest one. The heads have no cells.
class medusa_head final : public draft_head {
 public:
  /// `logit_scale`: factor of all logits.
  medusa_head(std::uint32_t num_heads, std::unique_ptr<medusa_weights> weights,
              std::shared_ptr<const transformer> target, std::vector<token_id> target_ids, float logit_scale);

  const model_info& info() const noexcept override { return info_; }
  head_traits traits() const noexcept override {
    return {.max_levels = num_heads_, .is_parallel = true, .has_cells = false, .reads_context = false};
  }
  std::unique_ptr<kv_storage> make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                              std::span<const layer_index> taps = {}) const override;
  std::span<const layer_index> taps() const noexcept override { return {&tap_, 1}; }
  std::span<const token_id> target_ids() const noexcept override { return target_ids_; }
  std::uint32_t num_embedded() const noexcept override { return target_->info().vocab_size; }
  void forward(device::ops& ops, const device::row_batch& batch, const head_features& features,
               kv_storage* kv, const head_outputs& outputs) const override;

 private:
  const device::matrix& lm_head(std::uint32_t head) const noexcept {
    if (weights_->lm_heads.empty()) return target_->weights().head();
    return *weights_->lm_heads[weights_->lm_heads.size() == 1 ? 0 : head];
  }
  /// True if all levels share one LM head: the target's, or the file's only one.
  bool has_one_lm_head() const noexcept { return weights_->lm_heads.size() <= 1; }
  std::uint64_t bytes_of_heads() const noexcept;

  std::uint32_t num_heads_;
  std::unique_ptr<medusa_weights> weights_;
  std::shared_ptr<const transformer> target_;
  std::vector<token_id> target_ids_;
  float logit_scale_;
  layer_index tap_;
  model_info info_;
};

} // namespace paceline::model
