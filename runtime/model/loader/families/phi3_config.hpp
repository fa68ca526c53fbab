#pragma once

#include "runtime/model/model_config.hpp"

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_file;
class gguf_keys;

/// Phi-3's window, which all its layers have, and its defaults. They set these fields of a config whose sizes
/// are known; errors are kept by the reader. Its rotation is in longrope.hpp, its tensors in
/// fused_tensors.hpp.
///
/// Source: transformers' `Phi3Config`; llama.cpp's keys of architecture phi3.
void read_gguf_phi3(const gguf_file& file, gguf_keys& keys, model_config& config);
void read_hf_phi3(const json_node& fields, model_config& config);

} // namespace paceline::model
