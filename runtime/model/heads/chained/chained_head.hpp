#pragma once

#include "runtime/device/buffer.hpp"
#include "runtime/device/matrix.hpp"
#include "runtime/model/decoder_layer.hpp"
#include "runtime/model/heads/draft_head.hpp"
#include "runtime/model/transformer.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace paceline::model {

/// One level of a chained head. Absent parts are null.
struct chained_level {
  /// MLP speculator: P_i. Hydra: W_i, then the W of the further layers. (The letters are those of the
  /// equations at chained_head.)
  std::vector<const device::matrix*> linear;
  std::vector<const float*> linear_bias;
  const device::matrix* residual = nullptr; ///< Hydra: R_i
  const float* residual_bias = nullptr;
  const device::matrix* embedding = nullptr; ///< MLP speculator: e_i
  const float* norm = nullptr;
  const float* norm_bias = nullptr;
  const device::matrix* lm_head = nullptr;
  const float* lm_head_bias = nullptr;
};

struct chained_weights {
  std::vector<chained_level> levels;
  /// MLP speculator with scale_input: weights of the norm of the target's state.
  const float* input_norm = nullptr;
  float embedding_scale = 1; ///< MLP speculator: beta
  /// Hydra++: a decoder layer and a norm over the hidden states of the text.
  std::optional<layer_weights> prefix;
  const float* prefix_norm = nullptr;
  std::vector<std::unique_ptr<const device::matrix>> matrices; ///< owns what the levels point to
  std::unique_ptr<device::buffer> vectors;
};

/// The network of a chained head.
enum class chained_kind : std::uint8_t { hydra, mlp_speculator };

struct chained_config {
  chained_kind kind = chained_kind::hydra;
  model_config layer;           ///< Hydra++: sizes of the prefix layer; hidden_size: of the target
  std::uint32_t inner_size = 0; ///< MLP speculator: values of a state
  layer_index tap{0};           ///< layer of the target whose hidden state is read
};

/// Heads in which each level i has its own network. It reads the tokens drafted so far, without attention
/// among them. h is the target's hidden state after its final norm (Hydra may read an earlier layer's), x or
/// x_0 the newest token, x_i the i-th token drafted after it:
///
///     Hydra (Ankner et al. 2024, arXiv:2402.05109, section 3)    v_0 = [s ; e(x)], v_i = [v_(i-1) ; e(x_i)]
///                y = R_i v_i + silu(W_i v_i);  y = y + silu(W y) for further layers;  logits = L_i y + c_i
///                s = h, or (Hydra++) norm(decoder_layer(h)) over the text
///     MLP speculator (Wertheimer et al. 2024, arXiv:2404.19124, section 3)    s_0 = h, or norm(h) / sqrt 2
///                s_(i+1) = gelu(w_i * norm(P_i s_i + beta * e_i(x_i)) + b_i);  logits = L_i s_(i+1)
///
/// A row with logits stores v_i or s_(i+1) beside its cell. A row of the text without logits only writes keys
/// and values of the decoder layer.
class chained_head final : public draft_head {
 public:
  chained_head(chained_config config, std::unique_ptr<chained_weights> weights,
               std::shared_ptr<const transformer> target, kv_type kv_type, device::buffer_memory& memory);

  const model_info& info() const noexcept override { return info_; }
  head_traits traits() const noexcept override {
    return {.max_levels = num_levels(),
            .is_parallel = false,
            .has_cells = true,
            .reads_context = weights_->prefix.has_value()};
  }
  std::unique_ptr<kv_storage> make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                              std::span<const layer_index> taps = {}) const override;
  std::span<const layer_index> taps() const noexcept override { return {&config_.tap, 1}; }
  std::span<const token_id> target_ids() const noexcept override { return {}; }
  std::uint32_t num_embedded() const noexcept override;
  void forward(device::ops& ops, const device::row_batch& batch, const head_features& features,
               kv_storage* kv, const head_outputs& outputs) const override;

 private:
  class pass;

  std::uint32_t num_levels() const noexcept { return static_cast<std::uint32_t>(weights_->levels.size()); }
  /// Number of values that a row stores for the next level.
  std::uint32_t kept_size() const noexcept {
    return config_.kind == chained_kind::hydra ? (num_levels() + 1) * config_.layer.hidden_size
                                               : config_.inner_size;
  }

  chained_config config_;
  std::unique_ptr<chained_weights> weights_;
  std::shared_ptr<const transformer> target_;
  std::vector<double> frequencies_;
  kv_type kv_type_;
  device::buffer_memory& memory_;
  model_info info_;
};

} // namespace paceline::model
