#pragma once

#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/model/model_config.hpp"

#include <string_view>

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_keys;

// LongRoPE (arXiv:2402.13753): files have two lists of frequency divisors, one for texts up to the original
// context and one for longer texts. Here the model's context length selects one list for all texts. If the
// list changed while a text grows, keys already in the KV cache would have been rotated with the other list.

/// True if `settings` are rotary settings with LongRoPE.
bool is_longrope(const json_node& settings, architecture arch);
/// Sets the divisors and the magnitude of `config` if `fields` has settings of LongRoPE. The rest of the
/// rotation must already have been read. `fields` keeps the first error.
void read_hf_longrope(const json_node& fields, model_config& config);

/// The name of the tensor that holds the frequency divisors, if the file has any: one of LongRoPE's two, or
/// Llama 3's "rope_freqs.weight". For LongRoPE this also sets the magnitude. `keys` keeps the first error.
std::string_view read_gguf_divisors_name(const gguf_file& file, gguf_keys& keys, model_config& config);

} // namespace paceline::model
