#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/model/loader/gguf_file.hpp"
#include "runtime/model/loader/weights_source.hpp"
#include "runtime/model/model_config.hpp"

namespace paceline::model {

/// Hyper-parameters in a GGUF file's metadata, and where GGUF says it by their presence, in its tensors
/// (biases, a head of its own, Llama 3's rope_freqs). Architectures outside `architecture`, mixtures of
/// experts, vision towers, encoders and adapters are refused by name.
expected<model_config> read_gguf_config(const gguf_file& file);

/// The weights of `file` as `config`, which was read from it, implies them. The result shares the file's
/// files.
expected<weights_source> read_gguf_weights(const gguf_file& file, const model_config& config);

} // namespace paceline::model
