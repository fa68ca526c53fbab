#pragma once

#include "runtime/model/model_config.hpp"

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_keys;

/// How Ministral 3's queries grow with their position, and its magnitude of YaRN. They set these fields of a
/// config whose rotation has been read; errors are kept by the reader. Mistral Small 3 has this architecture
/// in GGUF, without either; in Hugging Face directories it is a mistral.
///
/// Source: transformers' `Ministral3Config`; llama.cpp's keys of architecture mistral3.
void read_gguf_mistral3(gguf_keys& keys, model_config& config);
void read_hf_ministral3(const json_node& fields, model_config& config);

} // namespace paceline::model
