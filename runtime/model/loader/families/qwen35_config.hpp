#pragma once

#include "runtime/model/model_config.hpp"

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_file;
class gguf_keys;

/// Read the settings of Qwen3.5 and Qwen3-Next: which layers have attention and which a gated delta rule, the
/// heads, taps and packing of that rule, output gates of attention, and the number of modules for multi-token
/// prediction. GGUF files count these modules as layers, so the GGUF function subtracts them from
/// `num_layers` and shortens `local_layers`. `config` must already have its sizes. `keys` and `fields` keep
/// the first error. Experts: mixture_config.hpp.
///
/// Sources: transformers' `Qwen3_5TextConfig`, `Qwen3_5MoeTextConfig` and `Qwen3NextConfig`; llama.cpp's keys
/// of architectures qwen35, qwen35moe and qwen3next.
void read_gguf_qwen35(const gguf_file& file, gguf_keys& keys, model_config& config);
void read_hf_qwen35(const json_node& fields, model_config& config);

} // namespace paceline::model
