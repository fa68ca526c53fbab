#pragma once

#include "runtime/model/model_config.hpp"

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_file;
class gguf_keys;

/// Functions that read the settings which only one family's files have. `config` already has the sizes, the
/// family's traits and the rotation settings that all families state alike. Experts are read afterwards.
/// `keys` and `fields` keep the first error.
using gguf_family_reader = void (*)(const gguf_file& file, gguf_keys& keys, model_config& config);
using hf_family_reader = void (*)(const json_node& fields, model_config& config);

/// Properties that all files of an architecture share and do not state.
struct family_traits {
  architecture arch;
  bool interleaved_in_gguf = false; ///< rope_layout::interleaved in GGUF files
  bool qk_norm = false;             ///< model_config::qk_norm
  bool fused_projections = false;   ///< Q, K and V in one tensor, gate and up in another (fused_tensors.hpp)
  bool qkv_bias = false;            ///< biases on Q, K and V, but not on attention's output
  bool has_delta_rules = false;     ///< some layers have a gated delta rule (qwen35_config.hpp)
  bool has_experts = false;         ///< some layers have a mixture of experts
  /// How the routers of mixtures score experts.
  device::expert_gating gating = device::expert_gating::softmax;
  bool has_shared_expert = false; ///< mixtures have an expert that every row uses
  bool has_mtp_module = false;    ///< files may have a module for multi-token prediction
  bool norms_less_one = false;    ///< Hugging Face's files store the factors of norms minus one
  gate_activation activation = gate_activation::silu;
  double gguf_theta = 1e4; ///< theta of the rotation in GGUF files that do not state it
  /// Theta of layers with a window, if a file does not state it; 0: the theta of the other layers.
  double local_theta = 0;
  bool scales_global_rope = false;        ///< the RoPE scaling is not used in layers with a window
  std::uint32_t window_period = 0;        ///< n: in files without a list, every n-th layer has no window
  gguf_family_reader read_gguf = nullptr; ///< null: the family has no settings of its own
  hf_family_reader read_hf = nullptr;     ///< null: the family has no settings of its own
};

/// The traits of all supported architectures.
std::span<const family_traits> all_families() noexcept;
const family_traits& traits_of(architecture arch) noexcept;

/// "qwen2, qwen3 and gemma3": the families that have all of these traits.
std::string names_of_families(std::initializer_list<bool family_traits::*> traits = {});

} // namespace paceline::model
