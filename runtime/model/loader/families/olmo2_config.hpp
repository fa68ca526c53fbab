#pragma once

#include "runtime/model/model_config.hpp"

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_file;
class gguf_keys;

/// What OLMo 2 and 3 have in place of norms before the blocks, and the windows of OLMo 3, whose layers rotate
/// without the scaling of the others. They set these fields of a config whose rotation has been read; errors
/// are kept by the reader. GGUF files of both have one architecture; directories have a `model_type` each.
///
/// Source: transformers' `Olmo2Config` and `Olmo3Config`; llama.cpp's keys of architecture olmo2.
void read_gguf_olmo2(const gguf_file& file, gguf_keys& keys, model_config& config);
void read_hf_olmo2(const json_node& fields, model_config& config);

} // namespace paceline::model
