#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/model/loader/weights/weights_source.hpp"
#include "runtime/model/model_config.hpp"

#include <string_view>

namespace paceline::model {

/// Reads hyper-parameters from a GGUF file's metadata, and from the presence of tensors for what GGUF does
/// not state otherwise (biases, a separate head, Llama 3's rope_freqs). Architectures outside `architecture`,
/// experts in a family without them, vision towers, encoders and adapters are refused with an error that
/// names them.
expected<model_config> read_gguf_config(const gguf_file& file);

/// Sizes and rotary settings of the layers of a draft head's file, whose keys are those of a model but begin
/// with `prefix`. `layout` and the bias fields keep their defaults. `rope_theta` replaces the file's value;
/// 0: does not.
expected<model_config> read_gguf_layer_config(const gguf_file& file, std::string_view prefix,
                                              double rope_theta = 0);

/// The same for the one layer of a module for multi-token prediction in a file of architecture `arch`, which
/// may have nothing else of the model. `has_experts`: its feed-forward block is a mixture of experts.
expected<model_config> read_gguf_mtp_config(const gguf_file& file, architecture arch, bool has_experts,
                                            double rope_theta = 0);

/// The weights of `file` that are implied by `config`, which must have been read from it. Tensors of vision
/// and audio parts, which some files have beside the language model, are skipped. The result shares the
/// file's files.
expected<weights_source> read_gguf_weights(const gguf_file& file, const model_config& config);

} // namespace paceline::model
