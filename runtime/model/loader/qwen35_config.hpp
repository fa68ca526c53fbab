#pragma once

#include "runtime/model/model_config.hpp"

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_keys;

/// What Qwen3.5's files say of its layers: which have attention and which a gated delta rule, its heads, and
/// whether there is a module for multi-token prediction. They set these fields of a config whose sizes are
/// known; errors are kept by the reader.
///
/// Source: transformers' `Qwen3_5TextConfig`; llama.cpp's keys of architecture qwen35.
void read_gguf_qwen35(gguf_keys& keys, model_config& config);
void read_hf_qwen35(const json_node& fields, model_config& config);

} // namespace paceline::model
