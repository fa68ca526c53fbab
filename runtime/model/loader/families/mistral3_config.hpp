#pragma once

#include "runtime/model/model_config.hpp"

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_file;
class gguf_keys;

/// Read the settings of Ministral 3 that no other architecture has. Both functions set `config.growth`, the
/// factor by which queries grow with their position. The GGUF function also corrects the magnitude of YaRN.
/// The Hugging Face function also sets `norm_epsilon` and `local_rope`, refuses sliding windows, and sets the
/// YaRN defaults of the class if the config has no rotary settings. Call them after `config.rope` was read.
/// `keys` and `fields` keep the first error.
///
/// GGUF files of Mistral Small 3 have architecture mistral3 too, but none of these settings. Its Hugging Face
/// directories have model_type mistral and are not read here.
///
/// Source: transformers' `Ministral3Config`; llama.cpp's keys of architecture mistral3.
void read_gguf_mistral3(const gguf_file& file, gguf_keys& keys, model_config& config);
void read_hf_ministral3(const json_node& fields, model_config& config);

} // namespace paceline::model
