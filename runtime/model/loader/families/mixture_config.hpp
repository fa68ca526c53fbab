#pragma once

#include "runtime/base/json_node.hpp"
#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/model/loader/gguf/gguf_keys.hpp"
#include "runtime/model/model_config.hpp"

namespace paceline::model {

// Read the mixtures of experts that files describe. `config.arch` must be set: it decides how routers score
// experts, whether there is a shared expert, and the defaults for Hugging Face directories. `fields` and
// `keys` keep the first error.

/// Routing and sizes, from a config.json.
void read_hf_mixture(const json_node& fields, model_config& config);
/// Which layers have experts: in LFM2 all but the first "num_dense_layers"; in Qwen3.5 all; in other families
/// all, unless "mlp_only_layers" lists them or "decoder_sparse_step" skips them.
void read_hf_expert_layers(const json_node& fields, model_config& config);

/// Routing and sizes, from the keys of a GGUF file. Sizes of experts without a key are those of the file's
/// tensors.
void read_gguf_mixture(const gguf_file& file, gguf_keys& keys, model_config& config);
/// A layer has experts if the file has a router or expert matrices for it. If only one of the two is present,
/// the other is later reported as a missing tensor. A router must have a row for each expert that the key
/// states.
void find_gguf_expert_layers(const gguf_file& file, gguf_keys& keys, model_config& config);

} // namespace paceline::model
