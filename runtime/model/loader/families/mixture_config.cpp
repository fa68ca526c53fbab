#include "runtime/model/loader/families/mixture_config.hpp"

#include "runtime/base/quote.hpp"
#include "runtime/model/loader/families/family_traits.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::model {

namespace {

/// Defaults of the class of a mixture's type.
struct expert_defaults {
  std::uint32_t num_experts, num_used, ffn_size;
  bool normalised;
};

expert_defaults class_of_experts(architecture arch) noexcept {
  if (arch == architecture::qwen35moe) return {256, 8, 512, true};
  if (arch == architecture::qwen3next) return {512, 10, 512, true};
  if (arch == architecture::lfm2moe) return {32, 4, 1792, true};
  return {128, 8, 768, false};
}

/// Sets what files do not state.
void set_router(model_config& config) noexcept {
  device::expert_routing& routing = config.experts.routing;
  routing.gating = traits_of(config.arch).gating;
  if (config.arch == architecture::lfm2moe) routing.divisor_epsilon = 1e-6F;
}

/// The columns of the first layer's tensor with this name, for files without keys for the sizes of experts;
/// 0 if there is none.
std::uint32_t inner_size_in(const gguf_file& file, std::string_view name) {
  for (const gguf_tensor& tensor : file.tensors())
    if (tensor.name.ends_with("." + std::string(name)))
      return static_cast<std::uint32_t>(std::min(tensor.shape[0], gguf_keys::max_uint32));
  return 0;
}

/// True if the file has a tensor with matrices of the layer's experts.
bool has_expert_matrices(const gguf_file& file, const std::string& prefix) {
  constexpr std::array of_experts{"ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight",
                                  "ffn_gate_up_exps.weight"};
  return std::ranges::any_of(of_experts,
                             [&](const char* name) { return file.find_tensor(prefix + name) != nullptr; });
}

} // namespace

void read_hf_mixture(const json_node& fields, model_config& config) {
  const expert_defaults usual = class_of_experts(config.arch);
  set_router(config);
  device::expert_routing& routing = config.experts.routing;
  routing.num_experts = fields["num_experts"].uint_or(fields["num_local_experts"].uint_or(usual.num_experts));
  routing.num_used = fields["num_experts_per_tok"].uint_or(usual.num_used);
  // The class of Qwen3.5's mixtures has no such option.
  routing.normalised =
      config.arch == architecture::qwen35moe || fields["norm_topk_prob"].flag_or(usual.normalised);
  if (config.arch == architecture::lfm2moe) {
    routing.scale = static_cast<float>(fields["routed_scaling_factor"].setting_or(1));
    config.experts.selection_bias = fields["use_expert_bias"].flag_or(true);
  }
  config.experts.ffn_size = fields["moe_intermediate_size"].uint_or(usual.ffn_size);
  if (traits_of(config.arch).has_shared_expert)
    config.experts.shared_ffn_size = fields["shared_expert_intermediate_size"].uint_or(512);
}

void read_hf_expert_layers(const json_node& fields, model_config& config) {
  if (config.arch == architecture::lfm2moe) {
    const auto num_dense = fields["num_dense_layers"].uint_or(2);
    for (std::uint32_t l = 0; l < config.num_layers; ++l) config.experts.layers.push_back(l >= num_dense);
    return;
  }
  if (config.arch == architecture::qwen35moe) { // its class knows no layers without experts
    config.experts.layers.assign(config.num_layers, true);
    return;
  }
  const auto step = fields["decoder_sparse_step"].uint_or(1);
  if (step == 0) return fields["decoder_sparse_step"].refuse("must be at least 1");
  config.experts.layers.assign(config.num_layers, false);
  for (std::uint32_t l = 0; l < config.num_layers; ++l)
    config.experts.layers[l] = config.experts.routing.num_experts != 0 && (l + 1) % step == 0;
  const json_node dense = fields["mlp_only_layers"];
  if (!dense) return;
  dense.require_array();
  for (std::size_t i = 0; i < dense.size(); ++i) {
    const std::uint32_t layer = dense[i].uint();
    if (layer >= config.num_layers) return dense.refuse("must hold numbers of layers");
    config.experts.layers[layer] = false;
  }
}

void read_gguf_mixture(const gguf_file& file, gguf_keys& keys, model_config& config) {
  set_router(config);
  config.experts.selection_bias = config.arch == architecture::lfm2moe;
  device::expert_routing& routing = config.experts.routing;
  routing.num_experts = keys.uint("expert_count");
  routing.num_used = keys.uint("expert_used_count");
  if (routing.num_experts == 0) keys.refuse("expert_count", "must be at least 1");
  if (routing.num_used == 0 || routing.num_used > routing.num_experts)
    keys.refuse("expert_used_count", "must be 1 to " + std::to_string(routing.num_experts) + ", is " +
                                         std::to_string(routing.num_used));
  config.experts.ffn_size =
      keys.uint_or("expert_feed_forward_length", inner_size_in(file, "ffn_down_exps.weight"));
  if (traits_of(config.arch).has_shared_expert)
    config.experts.shared_ffn_size =
        keys.uint_or("expert_shared_feed_forward_length", inner_size_in(file, "ffn_down_shexp.weight"));
  // The key is newer than the architecture. The second one is that of Ollama's converter.
  routing.normalised = keys.flag_or("expert_weights_norm", keys.flag_or("norm_top_k_prob", true));
  routing.scale = static_cast<float>(keys.number_or("expert_weights_scale", 1));
  if (routing.scale == 0) routing.scale = 1; // converters write 0 for "none"
  const bool sigmoid = routing.gating == device::expert_gating::sigmoid;
  const std::uint32_t gating = sigmoid ? 2 : 1;
  if (keys.uint_or("expert_gating_func", gating) != gating)
    keys.refuse("expert_gating_func",
                "must be " + std::to_string(gating) + ": the router of this architecture is a " +
                    (sigmoid ? "sigmoid" : "softmax"),
                errc::unsupported);
  if (keys.uint_or("expert_group_count", 0) > 1)
    keys.refuse("expert_group_count", "must be at most 1: groups of experts are not of this architecture",
                errc::unsupported);
  if (keys.uint_or("expert_shared_count", 0) != 0 && config.experts.shared_ffn_size == 0)
    keys.refuse("expert_shared_count", "must be 0: shared experts are not supported", errc::unsupported);
}

void find_gguf_expert_layers(const gguf_file& file, gguf_keys& keys, model_config& config) {
  config.experts.layers.assign(config.num_layers, false);
  for (std::uint32_t l = 0; l < config.num_layers; ++l) {
    const std::string prefix = "blk." + std::to_string(l) + ".";
    const auto* const router = file.find_tensor(prefix + "ffn_gate_inp.weight");
    config.experts.layers[l] = router != nullptr || has_expert_matrices(file, prefix);
    if (router != nullptr && router->shape[1] != config.experts.routing.num_experts)
      keys.refuse("expert_count", "is " + std::to_string(config.experts.routing.num_experts) +
                                      ", and tensor " + quote(router->name) + " is for " +
                                      std::to_string(router->shape[1]) + " experts");
  }
}

} // namespace paceline::model
