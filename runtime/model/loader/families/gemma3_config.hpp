#pragma once

#include "runtime/model/model_config.hpp"

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_file;
class gguf_keys;

/// Set the fields of Gemma 3 that its traits do not cover: norms after the blocks, the factor of embeddings
/// and the factor of attention. The GGUF function also reads the windows and the theta of the layers that
/// have windows. `config` must already have sizes and rotation. `keys` and `fields` keep the first error.
///
/// Source: transformers' `Gemma3TextConfig`; llama.cpp's keys of architecture gemma3.
void read_gguf_gemma3(const gguf_file& file, gguf_keys& keys, model_config& config);
void read_hf_gemma3(const json_node& fields, model_config& config);

} // namespace paceline::model
