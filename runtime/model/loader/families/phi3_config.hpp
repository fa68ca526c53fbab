#pragma once

#include "runtime/model/model_config.hpp"

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_file;
class gguf_keys;

/// Read Phi-3's sliding window, which all its layers have. The Hugging Face function also reads
/// `norm_epsilon`, clears the bias fields and refuses RoPE scaling other than LongRoPE. `config` must already
/// have its sizes and rotation. `keys` and `fields` keep the first error. longrope.hpp reads Phi-3's
/// rotation; fused_tensors.hpp describes its tensors.
///
/// Source: transformers' `Phi3Config`; llama.cpp's keys of architecture phi3.
void read_gguf_phi3(const gguf_file& file, gguf_keys& keys, model_config& config);
void read_hf_phi3(const json_node& fields, model_config& config);

} // namespace paceline::model
