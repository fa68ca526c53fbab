#pragma once

#include "runtime/model/model_config.hpp"

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_file;
class gguf_keys;

/// Which of SmolLM3's layers are not rotated. GGUF files do not say it: every fourth. They set a field of a
/// config whose sizes are known; errors are kept by the reader.
///
/// Source: transformers' `SmolLM3Config`; llama.cpp's architecture smollm3.
void read_gguf_smollm3(const gguf_file& file, gguf_keys& keys, model_config& config);
void read_hf_smollm3(const json_node& fields, model_config& config);

} // namespace paceline::model
