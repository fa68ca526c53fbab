#pragma once

#include "runtime/model/loader/weights/tensor_role.hpp"

#include <string_view>

namespace paceline::model {

// Names of the tensors of a module for multi-token prediction (MTP) in the files of its model. A drafter
// reads these tensors; the model's own passes do not use them.

/// Prefix of the names in directories of a language model alone, and in GGUF files of Ollama's converter.
inline constexpr std::string_view mtp_prefix = "mtp.";

/// The part of a name from `mtp_prefix` on: "mtp.x" for "model.language_model.mtp.x", which directories of
/// models with other parts have. Empty for other names.
std::string_view mtp_name_alone(std::string_view name) noexcept;

/// True for a tensor of a module. `name`: the tensor's name in a model without other parts (`name_alone`). In
/// GGUF files, modules are the layers from `config.num_layers` on.
bool is_mtp_tensor(std::string_view name, tensor_naming naming, const model_config& config);

/// True if a tensor belongs to the mixture of experts of a module. `name_in_file`: its name in the files of a
/// directory.
bool is_mtp_expert_tensor(std::string_view name_in_file);

} // namespace paceline::model
