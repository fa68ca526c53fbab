#pragma once

#include "runtime/model/model_config.hpp"

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_file;
class gguf_keys;

/// The factors of Granite: of embeddings, of what a block adds to the residual stream, of logits, and of
/// attention (GGUF: `read_gguf_config` reads it for every architecture). They set these fields of a config
/// whose sizes are known; errors are kept by the reader.
///
/// Source: transformers' `GraniteConfig`; llama.cpp's keys of architecture granite.
void read_gguf_granite(const gguf_file& file, gguf_keys& keys, model_config& config);
void read_hf_granite(const json_node& fields, model_config& config);

} // namespace paceline::model
