#pragma once

#include "runtime/device/buffer.hpp"
#include "runtime/device/matrix.hpp"
#include "runtime/model/decoder_layer.hpp"
#include "runtime/model/heads/dflash/dflash_config.hpp"
#include "runtime/model/heads/dflash/markov_head.hpp"
#include "runtime/model/heads/draft_head.hpp"
#include "runtime/model/kv_cells.hpp"
#include "runtime/model/transformer.hpp"

#include <memory>
#include <vector>

namespace paceline::model {

/// Weights of a DFlash or DSpark head on the device.
struct dflash_weights {
  std::unique_ptr<const device::matrix> fc; ///< [hidden][taps * hidden]
  const float* context_norm = nullptr;      ///< after `fc`
  const float* output_norm = nullptr;       ///< before the LM head
  std::vector<layer_weights> layers;
  markov_weights markov;
  std::unique_ptr<const device::matrix> embedding; ///< null: the target's
  std::unique_ptr<const device::matrix> lm_head;   ///< null: the target's
  std::unique_ptr<device::buffer> vectors;         ///< memory of all vectors
};

/// DFlash drafts a block of B slots in one pass (z-lab's dflash), and DSpark adds a Markov head
/// (DeepSeek-AI's DeepSpec). f_i are the tapped states of position i; x_p is the newest token, at position p:
///
///     c_i = norm(fc(f_i))                               i < p: the text, the same vector in every layer
///     z_0 = embed(x_p), z_1 .. z_(B-1) = embed(mask)    at the positions p .. p + B - 1
///     each layer: n = norm(z); keys and values of [c ; n], queries of n; each slot sees all c and the whole
///                 block (less in a layer with a window: `block_window`); the rest is Qwen3's layer
///     base_j = lm_head(norm(z_j))                       of the token at position p + j (j > 0), or, with
///                                                       `predicts_next`, at p + j + 1
///     DSpark: logits_j = base_j + W2 m_j                m_j of the tokens drafted before: markov_head.hpp
///
/// So a row of the text writes keys and values but runs no layer; the block's rows are
/// `head_traits::num_block_rows`. With a Markov head, the rows of a level compute only W2 m_j
/// (docs/decisions/0587). If m_j or a confidence depends on norm(z_j), the pass over the block stores
/// norm(z_j) beside the block's cells.
class dflash_head final : public draft_head {
 public:
  /// `target` owns the embedding and LM head that the head borrows.
  dflash_head(dflash_config config, std::unique_ptr<dflash_weights> weights,
              std::shared_ptr<const transformer> target, std::vector<token_id> target_ids, kv_type kv_type,
              device::buffer_memory& memory);

  const model_info& info() const noexcept override { return info_; }
  head_traits traits() const noexcept override;
  std::unique_ptr<kv_storage> make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                              std::span<const layer_index> taps = {}) const override;
  std::span<const layer_index> taps() const noexcept override { return config_.taps; }
  std::span<const token_id> target_ids() const noexcept override { return target_ids_; }
  std::uint32_t num_embedded() const noexcept override;
  void forward(device::ops& ops, const device::row_batch& batch, const head_features& features,
               kv_storage* kv, const head_outputs& outputs) const override;

 private:
  class block_pass;
  class level_pass;

  /// Writes the Markov term W2 m_j of draft rows to `outputs.logits` (`level_pass`). The block must have been
  /// computed before. The caller adds the term to base_j (`head_traits::num_block_rows`).
  void complete_levels(device::ops& ops, const device::row_batch& batch, const head_features& features,
                       kv_cells& kv, const head_outputs& outputs) const;
  const device::matrix& embedding() const noexcept {
    return weights_->embedding ? *weights_->embedding : *target_->weights().token_embedding;
  }
  const device::matrix& lm_head() const noexcept {
    return weights_->lm_head ? *weights_->lm_head : target_->weights().head();
  }
  /// The first row whose logits are used. Row 0 is the newest row of the text, row 1 is slot 0.
  std::uint32_t first_level_row() const noexcept { return config_.predicts_next ? 1 : 2; }
  /// Number of values of the RNN's state that a slot stores.
  std::uint32_t state_size() const noexcept {
    return config_.markov == markov_kind::rnn ? config_.markov_rank : 0;
  }
  /// Number of values, [state ; norm(z)], that a slot stores beside its cell; 0: none.
  std::uint32_t kept_size() const noexcept;

  dflash_config config_;
  std::unique_ptr<dflash_weights> weights_;
  std::shared_ptr<const transformer> target_;
  std::vector<token_id> target_ids_;
  std::vector<double> frequencies_;
  kv_type kv_type_;
  device::buffer_memory& memory_;
  model_info info_;
};

} // namespace paceline::model
