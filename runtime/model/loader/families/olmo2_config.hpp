#pragma once

#include "runtime/model/model_config.hpp"

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_file;
class gguf_keys;

/// Set the norms of OLMo 2 and 3: after the blocks instead of before them, and QK norms over all heads. The
/// GGUF function also reads the windows of OLMo 3 and the theta of the layers that have them. The Hugging
/// Face function also reads `norm_epsilon`. `config` must already have its rotation. `keys` and `fields` keep
/// the first error. In GGUF files OLMo 2 and 3 have the same architecture; in directories each has its own
/// `model_type`.
///
/// Source: transformers' `Olmo2Config` and `Olmo3Config`; llama.cpp's keys of architecture olmo2.
void read_gguf_olmo2(const gguf_file& file, gguf_keys& keys, model_config& config);
void read_hf_olmo2(const json_node& fields, model_config& config);

} // namespace paceline::model
