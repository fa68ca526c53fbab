#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/model/loader/gguf_file.hpp"
#include "runtime/model/loader/weights_source.hpp"
#include "runtime/model/model_config.hpp"

#include <string_view>

namespace paceline::model {

/// Reads hyper-parameters from a GGUF file's metadata, and from the presence of tensors for what GGUF does
/// not state otherwise (biases, a separate head, Llama 3's rope_freqs). Architectures outside `architecture`,
/// mixtures of experts, vision towers, encoders and adapters are refused by name.
expected<model_config> read_gguf_config(const gguf_file& file);

/// Sizes and rotation of the layers of a file that is no model of its own but a draft head, whose keys begin
/// with `prefix` and are otherwise a model's. The layout of rotated pairs and biases are left at their
/// defaults. `rope_theta` replaces the file's; 0: the file's own.
expected<model_config> read_gguf_layer_config(const gguf_file& file, std::string_view prefix,
                                              double rope_theta = 0);

/// The weights of `file` that are implied by `config`, which must have been read from it. Tensors of vision
/// and audio parts, which some files have beside the language model, are skipped. The result shares the
/// file's files.
expected<weights_source> read_gguf_weights(const gguf_file& file, const model_config& config);

} // namespace paceline::model
