#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/model/loader/weights/weights_source.hpp"
#include "runtime/model/model_config.hpp"

#include <string_view>

namespace paceline::model {

/// Reads hyper-parameters from a GGUF file's metadata. The presence of tensors decides what the metadata does
/// not state (biases, an output matrix that is not the embedding, Llama 3's rope_freqs). Refuses, with an
/// error that names the reason: architectures that are not in the enum `architecture`, experts in a family
/// without them, and files that are a vision model, an encoder or an adapter. Vision and audio tensors in a
/// language model's file are no error: `read_gguf_weights` skips them.
expected<model_config> read_gguf_config(const gguf_file& file);

/// Sizes and rotary settings of the layers of a draft head's file. The file's keys are those of a model but
/// begin with `prefix`. `layout` and the bias fields keep their defaults. `rope_theta` replaces the file's
/// value unless it is 0.
expected<model_config> read_gguf_layer_config(const gguf_file& file, std::string_view prefix,
                                              double rope_theta = 0);

/// The same for a module for multi-token prediction, which is one layer. `file` has architecture `arch`; it
/// may have the module only, without the rest of the model. `has_experts`: the layer's feed-forward block is
/// a mixture of experts.
expected<model_config> read_gguf_mtp_config(const gguf_file& file, architecture arch, bool has_experts,
                                            double rope_theta = 0);

/// The weights of `file` that `config` implies; `config` must have been read from `file`. Tensors of vision
/// and audio parts, which some files have beside the language model, are skipped. The result holds
/// `file.files()`, so it stays valid after `file` is destroyed.
expected<weights_source> read_gguf_weights(const gguf_file& file, const model_config& config);

} // namespace paceline::model
