#pragma once

#include "runtime/device/buffer.hpp"
#include "runtime/device/matrix.hpp"
#include "runtime/model/decoder_layer.hpp"
#include "runtime/model/heads/draft_head.hpp"
#include "runtime/model/heads/eagle/eagle_config.hpp"
#include "runtime/model/transformer.hpp"

#include <memory>
#include <vector>

namespace paceline::model {

/// An EAGLE head's weights on the device. Absent vectors are null.
struct eagle_weights {
  std::unique_ptr<const device::matrix>
      fc; ///< EAGLE-3: [hidden][taps * target hidden]; EAGLE: [hidden][2 hidden]
  const float* fc_bias = nullptr;
  const float* input_norm = nullptr;     ///< one norm over all tapped vectors together, before `fc`
  std::vector<const float*> tap_norms;   ///< a norm for each tapped vector, before `fc`; empty: none
  const float* embedding_norm = nullptr; ///< norm of the embedding, before `fc` or the first layer
  const float* feature_norm = nullptr;   ///< EAGLE, MTP: norm of f, before `fc`; EAGLE-3: norm of g
  const float* output_norm = nullptr;    ///< before the LM head; with `norm_output` also before feedback
  /// Trained input of mask rows. P-EAGLE: replaces the tapped vectors, [taps * target hidden]. DART: replaces
  /// the input of the first layer's attention, [2 hidden]. Null: the head has no mask rows.
  const float* mask = nullptr;
  std::vector<layer_weights> layers;               ///< EAGLE-3: the first layer's attention reads two vectors
  std::unique_ptr<const device::matrix> embedding; ///< null: the target's
  std::unique_ptr<const device::matrix> lm_head;   ///< null: the target's
  std::unique_ptr<device::buffer> vectors;         ///< memory of all vectors
};

/// The draft heads of EAGLE (Li et al. 2024, arXiv:2401.15077, section 4.1; EAGLE-2, arXiv:2406.16858, has
/// the same network) and EAGLE-3 (Li et al. 2025, arXiv:2503.01840, section 3.1). For the row of feature f
/// and token x, with e = embed(x):
///
///     EAGLE     g = fc([e ; f]) + bias          f: hidden state after the target's final norm
///               o = layers(g)                   no norm before the first layer's attention
///               logits = lm_head(o)             fed back: o
///
///     MTP       as EAGLE with g = fc([norm(e) ; norm(f)]), or the other order, a norm before the first
///               layer's attention, and logits = lm_head(norm(o)); fed back: norm(o), or o (DeepSeek-V3,
///               arXiv:2412.19437, section 2.2); the layer's mlp may be a mixture of experts
///
///     EAGLE-3   g = fc(f_low ; f_mid ; f_high)  in the first step of a draft; later g = the state fed back
///               u = [norm(e) ; norm(g)]         input of the first layer's attention
///               r = g + attention(u)            norm_before_residual: norm(g) + attention(u)
///               o = rest(r + mlp(norm(r)))      rest: the layers after the first
///               logits = lm_head(norm(o))       fed back: o, or norm(o) with norm_output
///
/// P-EAGLE (arXiv:2602.01469) and DART (arXiv:2601.19278) are EAGLE-3 heads that draft all levels in one
/// pass: mask rows follow the newest row, at the positions of the next tokens. The newest row gives level 0,
/// mask row j (from 1) level j.
///
///     P-EAGLE   mask rows: e = embed(mask token); (f_low ; f_mid ; f_high) is a trained vector
///     DART      mask rows: u = m, a trained vector; r = (first half of m) + attention(u)
///               all rows: logits = lm_head(norm(norm(o)))
///
/// Attention is causal with rotary positions over the head's own cells.
class eagle_head final : public draft_head {
 public:
  /// `target` owns the embedding or LM head that the head borrows; it may be null if the head has both
  /// itself. `target_ids`: as `draft_head::target_ids`.
  eagle_head(eagle_config config, std::unique_ptr<eagle_weights> weights,
             std::shared_ptr<const transformer> target, std::vector<token_id> target_ids, kv_type kv_type,
             device::buffer_memory& memory);

  const model_info& info() const noexcept override { return info_; }
  std::unique_ptr<kv_storage> make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                              std::span<const layer_index> taps = {}) const override;
  head_traits traits() const noexcept override;
  std::span<const layer_index> taps() const noexcept override { return config_.taps; }
  std::span<const token_id> target_ids() const noexcept override { return target_ids_; }
  std::uint32_t num_embedded() const noexcept override { return embedding().num_rows(); }
  void forward(device::ops& ops, const device::row_batch& batch, const head_features& features,
               kv_storage* kv, const head_outputs& outputs) const override;

 private:
  class pass;

  /// True if a row of a draft reads the hidden state of its parent's row.
  bool feeds_back() const noexcept { return config_.masks == mask_rows::none; }
  const device::matrix& embedding() const noexcept {
    return weights_->embedding ? *weights_->embedding : *target_->weights().token_embedding;
  }
  const device::matrix& lm_head() const noexcept {
    if (weights_->lm_head) return *weights_->lm_head;
    return config_.ties_lm_head && weights_->embedding ? *weights_->embedding : target_->weights().head();
  }

  eagle_config config_;
  std::unique_ptr<eagle_weights> weights_;
  std::shared_ptr<const transformer> target_;
  std::vector<token_id> target_ids_;
  std::vector<double> frequencies_;
  kv_type kv_type_;
  device::buffer_memory& memory_;
  model_info info_;
};

} // namespace paceline::model
