#pragma once

#include "runtime/model/model_config.hpp"

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_file;
class gguf_keys;

/// True for LFM2 with and without experts.
constexpr bool is_lfm2(architecture arch) noexcept {
  return arch == architecture::lfm2 || arch == architecture::lfm2moe;
}

/// Read the settings of LFM2: which layers have attention and which a short convolution, and the number of
/// taps. The Hugging Face function also reads `conv.bias`, `norm_epsilon`, `tied_embeddings` and the
/// feed-forward size. `config` must already have its sizes. `keys` and `fields` keep the first error. Experts
/// of lfm2moe: mixture_config.hpp.
///
/// Source: transformers' `Lfm2Config` and `Lfm2MoeConfig`; llama.cpp's keys of architecture lfm2.
void read_gguf_lfm2(const gguf_file& file, gguf_keys& keys, model_config& config);
void read_hf_lfm2(const json_node& fields, model_config& config);

} // namespace paceline::model
