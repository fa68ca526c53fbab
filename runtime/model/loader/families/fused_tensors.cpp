#include "runtime/model/loader/families/fused_tensors.hpp"

#include "runtime/model/loader/families/family_traits.hpp"

#include <algorithm>

namespace paceline::model {
namespace {

constexpr tensor_role qkv_roles[] = {tensor_role::q, tensor_role::k, tensor_role::v};
constexpr tensor_role gate_up_roles[] = {tensor_role::ffn_gate, tensor_role::ffn_up};

constexpr fused_tensor all_fused[] = {
    {"attn_qkv.weight", "self_attn.qkv_proj.weight", qkv_roles},
    {"ffn_up.weight", "mlp.gate_up_proj.weight", gate_up_roles},
};

} // namespace

const fused_tensor* fused_tensor_named(std::string_view name, tensor_naming naming,
                                       const model_config& config) noexcept {
  if (!traits_of(config.arch).fused_projections) return nullptr;
  for (const fused_tensor& one : all_fused)
    if (one.name(naming) == name) return &one;
  return nullptr;
}

const fused_tensor* fused_tensor_of(tensor_role role, const model_config& config) noexcept {
  if (!traits_of(config.arch).fused_projections) return nullptr;
  for (const fused_tensor& one : all_fused)
    if (std::ranges::count(one.roles, role) != 0) return &one;
  return nullptr;
}

} // namespace paceline::model
