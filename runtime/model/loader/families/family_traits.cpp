#include "runtime/model/loader/families/family_traits.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/joined.hpp"
#include "runtime/model/loader/families/gemma3_config.hpp"
#include "runtime/model/loader/families/granite_config.hpp"
#include "runtime/model/loader/families/lfm2_config.hpp"
#include "runtime/model/loader/families/mistral3_config.hpp"
#include "runtime/model/loader/families/olmo2_config.hpp"
#include "runtime/model/loader/families/phi3_config.hpp"
#include "runtime/model/loader/families/qwen35_config.hpp"
#include "runtime/model/loader/families/smollm3_config.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

namespace paceline::model {

namespace {

constexpr family_traits families[] = {
    {.arch = architecture::llama, .interleaved_in_gguf = true},
    {.arch = architecture::qwen2, .qkv_bias = true},
    {.arch = architecture::qwen3, .qk_norm = true},
    {.arch = architecture::qwen3moe, .qk_norm = true, .has_experts = true},
    {.arch = architecture::lfm2, .qk_norm = true, .read_gguf = read_gguf_lfm2, .read_hf = read_hf_lfm2},
    {.arch = architecture::lfm2moe,
     .qk_norm = true,
     .has_experts = true,
     .gating = device::expert_gating::sigmoid,
     .read_gguf = read_gguf_lfm2,
     .read_hf = read_hf_lfm2},
    {.arch = architecture::qwen35,
     .qk_norm = true,
     .has_delta_rules = true,
     .has_mtp_module = true,
     .norms_less_one = true,
     .read_gguf = read_gguf_qwen35,
     .read_hf = read_hf_qwen35},
    {.arch = architecture::qwen35moe,
     .qk_norm = true,
     .has_delta_rules = true,
     .has_experts = true,
     .has_shared_expert = true,
     .has_mtp_module = true,
     .norms_less_one = true,
     .read_gguf = read_gguf_qwen35,
     .read_hf = read_hf_qwen35},
    {.arch = architecture::qwen3next,
     .qk_norm = true,
     .has_delta_rules = true,
     .has_experts = true,
     .has_shared_expert = true,
     .has_mtp_module = true,
     .norms_less_one = true,
     .read_gguf = read_gguf_qwen35,
     .read_hf = read_hf_qwen35},
    {.arch = architecture::granite,
     .interleaved_in_gguf = true,
     .read_gguf = read_gguf_granite,
     .read_hf = read_hf_granite},
    {.arch = architecture::mistral3,
     .interleaved_in_gguf = true,
     .read_gguf = read_gguf_mistral3,
     .read_hf = read_hf_ministral3},
    {.arch = architecture::olmo2,
     .qk_norm = true,
     .scales_global_rope = true,
     .window_period = 4,
     .read_gguf = read_gguf_olmo2,
     .read_hf = read_hf_olmo2},
    {.arch = architecture::phi3,
     .fused_projections = true,
     .read_gguf = read_gguf_phi3,
     .read_hf = read_hf_phi3},
    {.arch = architecture::smollm3,
     .interleaved_in_gguf = true,
     .read_gguf = read_gguf_smollm3,
     .read_hf = read_hf_smollm3},
    {.arch = architecture::gemma3,
     .qk_norm = true,
     .norms_less_one = true,
     .activation = gate_activation::gelu_tanh,
     .gguf_theta = 1e6,
     .local_theta = 1e4,
     .scales_global_rope = true,
     .window_period = 6,
     .read_gguf = read_gguf_gemma3,
     .read_hf = read_hf_gemma3},
};

} // namespace

std::span<const family_traits> all_families() noexcept { return families; }

const family_traits& traits_of(architecture arch) noexcept {
  const auto* const found = std::ranges::find(families, arch, &family_traits::arch);
  PACELINE_CHECK(found != std::end(families), std::string(to_string(arch)));
  return *found;
}

std::string names_of_families(std::initializer_list<bool family_traits::*> traits) {
  std::vector<std::string_view> names;
  for (const family_traits& family : families)
    if (std::ranges::all_of(traits, [&](const auto trait) { return family.*trait; }))
      names.push_back(to_string(family.arch));
  return listed(names);
}

} // namespace paceline::model
