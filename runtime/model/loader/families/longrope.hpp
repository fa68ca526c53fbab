#pragma once

#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/model/model_config.hpp"

#include <string_view>

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_keys;

// LongRoPE (arXiv:2402.13753): files have two lists of divisors of frequencies, for texts up to the original
// context and for longer ones. The model's context decides which is used for all texts: if it changed with a
// text's length, keys in the cache would have been rotated with the other one.

/// True for rotary settings of this kind.
bool is_longrope(const json_node& settings, architecture arch);
/// Sets the divisors and the magnitude of a config whose rotation has been read, if its settings are of this
/// kind. Errors are kept by the reader.
void read_hf_longrope(const json_node& fields, model_config& config);

/// The name of the tensor that holds the divisors of frequencies, if there are any: one of LongRoPE's, or
/// Llama 3's. Sets the magnitude of the former.
std::string_view read_gguf_divisors_name(const gguf_file& file, gguf_keys& keys, model_config& config);

} // namespace paceline::model
