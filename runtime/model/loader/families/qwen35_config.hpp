#pragma once

#include "runtime/model/model_config.hpp"

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_file;
class gguf_keys;

/// What files of Qwen3.5 and Qwen3-Next say of their layers: which have attention and which a gated delta
/// rule, its heads and how its matrices are packed, output gates of attention, and the number of modules for
/// multi-token prediction. GGUF files count these modules as layers, and the function takes them off
/// `num_layers` and `local_layers`. Both set these fields of a config whose sizes are known; errors are kept
/// by the reader. Experts: mixture_config.hpp.
///
/// Sources: transformers' `Qwen3_5TextConfig`, `Qwen3_5MoeTextConfig` and `Qwen3NextConfig`; llama.cpp's keys
/// of architectures qwen35, qwen35moe and qwen3next.
void read_gguf_qwen35(const gguf_file& file, gguf_keys& keys, model_config& config);
void read_hf_qwen35(const json_node& fields, model_config& config);

} // namespace paceline::model
