#pragma once

#include "runtime/device/buffer.hpp"
#include "runtime/device/matrix.hpp"
#include "runtime/model/decoder_layer.hpp"
#include "runtime/model/kv_cells.hpp"
#include "runtime/model/language_model.hpp"
#include "runtime/model/model_config.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace paceline::model {

/// All weights of a decoder on the device.
struct transformer_weights {
  std::unique_ptr<const device::matrix> token_embedding;
  std::unique_ptr<const device::matrix> output; ///< null: the embedding is used
  const float* output_norm = nullptr;
  const float* logits_norm = nullptr; ///< norm of the rows before the head: output_norm * logits_scale
  std::vector<layer_weights> layers;
  std::unique_ptr<device::buffer> vectors; ///< memory of all vectors

  const device::matrix& head() const noexcept { return output ? *output : *token_embedding; }
};

/// The forward pass of the decoder families in `architecture`, written in terms of the device's ops.
/// Differences between families are fields of the config. Constant after construction.
class transformer final : public language_model {
 public:
  /// `weights` must have everything that the config implies; `memory`, from which KV pools are allocated,
  /// must outlive the model.
  transformer(model_config config, transformer_weights weights, kv_type kv_type,
              device::buffer_memory& memory);

  const model_info& info() const noexcept override { return info_; }
  std::unique_ptr<kv_storage> make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                              std::span<const layer_index> taps = {}) const override;
  std::unique_ptr<const language_model> part_of(std::span<const std::uint32_t> layers) const override;
  void forward(device::ops& ops, const device::row_batch& batch, kv_storage& kv,
               const forward_outputs& outputs) const override;
  bool run_chain(device::ops& ops, const device::chain_args& chain, kv_storage& kv) const override;

  const model_config& config() const noexcept { return config_; }
  const transformer_weights& weights() const noexcept { return weights_; }

 private:
  class pass;
  class part;

  kv_shape shape_of(std::span<const std::uint32_t> layers) const;
  /// A pass through some layers only; `kv` has cells for as many layers.
  void run(device::ops& ops, const device::row_batch& batch, kv_storage& kv, const forward_outputs& outputs,
           std::span<const std::uint32_t> layers) const;
  bool run_chain(device::ops& ops, const device::chain_args& chain, kv_storage& kv,
                 std::span<const std::uint32_t> layers) const;
  kv_cells& own_cells(kv_storage& kv, std::span<const std::uint32_t> layers) const;

  model_config config_;
  transformer_weights weights_;
  device::buffer_memory& memory_;
  std::unique_ptr<device::buffer> unit_norm_; ///< see `decoder_layers::apply_delta_rule`; null if unused
  std::vector<double> frequencies_;           ///< for layers that see all positions
  std::vector<double> local_frequencies_;     ///< for layers with a window; empty if there are none
  kv_type kv_type_;
  std::vector<std::uint32_t> all_layers_; ///< 0 to num_layers - 1
  model_info info_;
};

} // namespace paceline::model
