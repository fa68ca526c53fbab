#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/device/buffer.hpp"
#include "runtime/device/matrix.hpp"
#include "runtime/model/heads/draft_head.hpp"
#include "runtime/model/heads/eagle_config.hpp"
#include "runtime/model/transformer.hpp"

#include <filesystem>
#include <memory>

namespace paceline::model {

/// How a head is loaded.
struct head_load_options {
  paceline::kv_type kv_type = paceline::kv_type::f16; ///< of its KV pool
  head_overrides overrides;
};

/// Loads a head from a directory in a published layout: config.json with model.safetensors. Dialects:
/// SafeAILab, SpecForge and AngelSlim ("midlayer."), speculators and DeepSpec ("layers.0."); names may begin
/// with "model.". Tensors that have no meaning in the head are refused by name, and so are shapes that do not
/// fit the config or the target, with both values. `buffers` must outlive the head.
expected<std::shared_ptr<const draft_head>>
load_eagle_head(const std::filesystem::path& directory, eagle_version version,
                std::shared_ptr<const transformer> target, const head_load_options& options,
                device::weight_memory& weights, device::buffer_memory& buffers);

} // namespace paceline::model
