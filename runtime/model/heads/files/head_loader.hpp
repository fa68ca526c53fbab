#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/device/buffer.hpp"
#include "runtime/device/matrix.hpp"
#include "runtime/model/heads/draft_head.hpp"
#include "runtime/model/heads/eagle/eagle_config.hpp"
#include "runtime/model/heads/head_target.hpp"
#include "runtime/model/transformer.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace paceline::model {

/// How a head is loaded.
struct head_load_options {
  paceline::kv_type kv_type = paceline::kv_type::f16; ///< element type of the head's KV pool
  head_overrides overrides;
  std::optional<device::tensor_type> format = {}; ///< of matrices: Q8_0 or Q4_0; nullopt: as stored
};

/// Loads the head of a drafter of kind `kind` ("eagle", "eagle2", "eagle3", "medusa", "blockwise", "mtp",
/// "hydra", "mlp_speculator", "dart", "dflash", "dspark") from a directory in a published layout, or from a
/// GGUF file of llama.cpp ("eagle3", "mtp", "dflash", "dspark"), for the target that it was trained for. A
/// head that does not fit the target is refused with an error that names file, field or tensor, and both
/// values. A tensor that the loader does not know is refused, too. `buffers` must outlive the head.
/// docs/drafters.md describes the layouts.
expected<std::shared_ptr<const draft_head>>
load_draft_head(const std::string& kind, const std::filesystem::path& path,
                std::shared_ptr<const transformer> target, const head_load_options& options,
                device::weight_memory& weights, device::buffer_memory& buffers);

/// EAGLE: config.json with model.safetensors. Dialects: SafeAILab, SpecForge and AngelSlim ("midlayer."),
/// speculators and DeepSpec ("layers.0."); names may begin with "model.". A head of EAGLE-3 with
/// "mask_hidden" is P-EAGLE's. EAGLE-3 also as a GGUF file of llama.cpp's architecture "eagle3".
expected<std::shared_ptr<const draft_head>>
load_eagle_head(const std::filesystem::path& path, eagle_version version,
                std::shared_ptr<const transformer> target, const head_load_options& options,
                device::weight_memory& weights, device::buffer_memory& buffers);

/// DART: EAGLE-3's layout with "midlayer.mask_rep".
expected<std::shared_ptr<const draft_head>> load_dart_head(const std::filesystem::path& directory,
                                                           std::shared_ptr<const transformer> target,
                                                           const head_load_options& options,
                                                           device::weight_memory& weights,
                                                           device::buffer_memory& buffers);

/// Multi-token-prediction modules, from the target's own checkpoint or a file of their own. Layouts: MiMo;
/// Qwen3-Next and Qwen3.5, dense or with experts, also as a GGUF file of llama.cpp; speculators; DeepSeek's
/// names with a dense layer. The other tensors of the checkpoint are not read.
expected<std::shared_ptr<const draft_head>> load_mtp_head(const std::filesystem::path& path,
                                                          std::shared_ptr<const transformer> target,
                                                          const head_load_options& options,
                                                          device::weight_memory& weights,
                                                          device::buffer_memory& buffers);

/// Hydra and Hydra++ (kind "hydra": "hydra_mlp.", "hydra_lm_head.", "prefix_embeding_layer.") and IBM's MLP
/// speculators (kind "mlp_speculator": "emb.", "proj.", "head.", "ln.").
expected<std::shared_ptr<const draft_head>>
load_chained_head(const std::filesystem::path& directory, const std::string& kind,
                  std::shared_ptr<const transformer> target, const head_load_options& options,
                  device::weight_memory& weights, device::buffer_memory& buffers);

/// DFlash (kind "dflash") and DSpark (kind "dspark"), which adds a Markov head. Layouts: z-lab and SpecForge,
/// DeepSpec with its own embedding and LM head, speculators, and GGUF files of llama.cpp's architecture
/// "dflash". docs/drafters.md says how they are recognised.
expected<std::shared_ptr<const draft_head>>
load_dflash_head(const std::filesystem::path& path, const std::string& kind,
                 std::shared_ptr<const transformer> target, const head_load_options& options,
                 device::weight_memory& memory, device::buffer_memory& buffers);

/// Medusa, in the layout of FasterDecoding ("0.0.linear.weight") or vLLM ("blocks.0.layers.0.weight",
/// "token_map"), and blockwise heads ("hidden.weight", "output.weight").
expected<std::shared_ptr<const draft_head>> load_medusa_head(const std::filesystem::path& directory,
                                                             std::shared_ptr<const transformer> target,
                                                             const head_load_options& options,
                                                             device::weight_memory& weights,
                                                             device::buffer_memory& buffers);

} // namespace paceline::model
