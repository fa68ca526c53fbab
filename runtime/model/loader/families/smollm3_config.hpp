#pragma once

#include "runtime/model/model_config.hpp"

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_file;
class gguf_keys;

/// Set `unrotated_layers`, SmolLM3's layers without rotation. GGUF files do not state them: every fourth
/// layer is unrotated. `config` must already have its sizes. `fields` keeps the first error.
///
/// Source: transformers' `SmolLM3Config`; llama.cpp's architecture smollm3.
void read_gguf_smollm3(const gguf_file& file, gguf_keys& keys, model_config& config);
void read_hf_smollm3(const json_node& fields, model_config& config);

} // namespace paceline::model
