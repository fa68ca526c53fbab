#pragma once

#include "runtime/model/model_config.hpp"

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_file;
class gguf_keys;

/// What Gemma 3 has beside the traits of its family: norms after the blocks, the factor of embeddings, and
/// that of attention. The GGUF function also reads the windows and the rotation of the layers that have them.
/// They set these fields of a config whose sizes and rotation are known; errors are kept by the reader.
///
/// Source: transformers' `Gemma3TextConfig`; llama.cpp's keys of architecture gemma3.
void read_gguf_gemma3(const gguf_file& file, gguf_keys& keys, model_config& config);
void read_hf_gemma3(const json_node& fields, model_config& config);

} // namespace paceline::model
