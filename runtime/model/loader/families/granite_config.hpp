#pragma once

#include "runtime/model/model_config.hpp"

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_file;
class gguf_keys;

/// Read the factors of Granite: `embedding_scale`, `residual_scale` and `logits_scale`. The Hugging Face
/// function also reads `attention_scale`; for GGUF, `read_gguf_config` reads it for every architecture.
/// `config` must already have its sizes. `keys` and `fields` keep the first error.
///
/// Source: transformers' `GraniteConfig`; llama.cpp's keys of architecture granite.
void read_gguf_granite(const gguf_file& file, gguf_keys& keys, model_config& config);
void read_hf_granite(const json_node& fields, model_config& config);

} // namespace paceline::model
