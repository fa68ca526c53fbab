#include "runtime/model/loader/weights/expert_tensors.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/quote.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace paceline::model {

namespace {

/// The role of one expert's matrix, and that of the matrix with the same name in a layer without experts.
struct expert_role {
  tensor_role role;
  tensor_role dense;
};

constexpr expert_role expert_roles[] = {
    {tensor_role::ffn_gate_experts, tensor_role::ffn_gate},
    {tensor_role::ffn_up_experts, tensor_role::ffn_up},
    {tensor_role::ffn_down_experts, tensor_role::ffn_down},
};

/// The newer form of GGUF: one tensor for gate and up. The older form has a tensor for each role.
constexpr std::string_view gguf_gate_and_up = "ffn_gate_up_exps.weight";

/// The part of a name after the block's name, as in "mlp.gate_proj.weight".
std::string_view behind_block(std::string_view name) noexcept { return name.substr(name.find('.') + 1); }

/// Parses a name such as "5.gate_proj.weight", which is a matrix of expert 5.
std::optional<expert_part> parse_one_expert(std::string_view name, const model_config& config) noexcept {
  const auto expert = take_number(name);
  if (!expert) return std::nullopt;
  for (const auto& [role, dense] : expert_roles)
    if (name == behind_block(tensor_name(dense, tensor_naming::hugging_face, config)))
      return expert_part{role, expert, false};
  return std::nullopt;
}

error failure(std::string_view file, std::string_view tensor, const std::string& rule,
              errc code = errc::invalid_file) {
  return error(code, std::string(file) + ": tensor " + quote(tensor) + " " + rule);
}

} // namespace

std::optional<expert_part> parse_expert_part(std::string_view name, tensor_naming naming,
                                             const model_config& config) noexcept {
  const bool is_gguf = naming == tensor_naming::gguf;
  // In the other format one tensor with gate and up has the name of both roles.
  if (is_gguf && name == gguf_gate_and_up)
    return expert_part{tensor_role::ffn_gate_experts, std::nullopt, true};
  for (const auto& [role, dense] : expert_roles)
    if (name == tensor_name(role, naming, config))
      return expert_part{role, std::nullopt, !is_gguf && role != tensor_role::ffn_down_experts};
  if (is_gguf) return std::nullopt;
  const std::string_view of_all = tensor_name(tensor_role::ffn_down_experts, naming, config);
  const std::string_view prefix = of_all.substr(0, of_all.rfind('.') + 1);
  if (!name.starts_with(prefix)) return std::nullopt;
  return parse_one_expert(name.substr(prefix.size()), config);
}

expert_tensors::collected& expert_tensors::of(tensor_role role) {
  PACELINE_CHECK(is_expert_role(role), std::string(to_string(role)));
  return roles_[expert_index(role)];
}

expected<void> expert_tensors::add(const expert_part& part, const weight_view& tensor,
                                   const model_config& config, std::uint32_t layer, std::string_view file) {
  const auto [role_rows, cols] = shape_of(config, part.role, layer);
  const std::uint32_t num_experts = config.experts.routing.num_experts;
  const std::uint64_t count = part.expert ? 1 : num_experts;
  const std::uint64_t rows = part.gate_and_up ? 2 * role_rows : role_rows;
  if (part.expert && *part.expert >= num_experts)
    return failure(file, tensor.name,
                   "belongs to expert " + std::to_string(*part.expert) + " of a layer with " +
                       std::to_string(num_experts) + " experts");
  if (tensor.num_matrices != count || tensor.tensor.num_rows != count * rows ||
      tensor.tensor.num_cols != cols)
    return failure(
        file, tensor.name,
        "must have the shape " + shape_text(std::array{count, rows, cols}) + ", has " +
            shape_text(std::array{tensor.num_matrices, tensor.tensor.num_rows / tensor.num_matrices,
                                  tensor.tensor.num_cols}));
  if (tensor.scales != nullptr && count * rows != role_rows)
    return failure(file, tensor.name, "holds several matrices in F8_E4M3, which is not supported");
  if (part.expert) {
    before_number_ = tensor.name.substr(0, tensor.name.rfind("." + std::to_string(*part.expert) + ".") + 1);
    of(part.role).each.emplace_back(*part.expert, tensor);
    return {};
  }
  const auto add_role = [&](tensor_role role, std::uint64_t first) {
    collected& to = of(role);
    if (!to.all.empty()) to.twice = tensor.name;
    to.all = expert_matrices(tensor, {num_experts, role_rows, rows, first});
    to.all_name = tensor.name;
  };
  add_role(part.role, 0);
  if (part.gate_and_up) add_role(tensor_role::ffn_up_experts, role_rows);
  return {};
}

std::string expert_tensors::missing_name(tensor_role role, std::size_t expert, const model_config& config,
                                         std::string_view name_of_all) const {
  if (before_number_.empty()) return std::string(name_of_all);
  const auto* const found = std::ranges::find(expert_roles, role, &expert_role::role);
  return std::string(before_number_) + std::to_string(expert) + "." +
         std::string(behind_block(tensor_name(found->dense, tensor_naming::hugging_face, config)));
}

expected<expert_matrices> expert_tensors::take(tensor_role role, const model_config& config,
                                               std::string_view name, std::string_view file) {
  collected from = std::exchange(of(role), {});
  const auto twice = [&](std::string_view tensor) {
    return failure(file, tensor, "occurs twice, or another one has its matrices");
  };
  if (!from.twice.empty()) return twice(from.twice);
  const auto missing = [&](std::size_t expert) {
    return failure(file, missing_name(role, expert, config, name), "is missing");
  };
  if (from.all.empty() && from.each.empty()) return missing(0);
  if (!from.all.empty() && !from.each.empty()) return twice(from.all_name);
  if (from.each.empty()) return std::move(from.all);
  std::ranges::stable_sort(from.each, {}, [](const auto& one) { return one.first; });
  std::vector<weight_view> matrices;
  matrices.reserve(from.each.size());
  for (const auto& [expert, view] : from.each) {
    if (expert < matrices.size()) return twice(view.name);
    if (expert != matrices.size()) break;
    matrices.push_back(view);
  }
  if (matrices.size() < config.experts.routing.num_experts) return missing(matrices.size());
  for (const weight_view& view : matrices)
    if (view.tensor.type != matrices[0].tensor.type ||
        (view.scales == nullptr) != (matrices[0].scales == nullptr))
      return failure(file, view.name, "must have the type of the other experts", errc::unsupported);
  return expert_matrices(std::move(matrices));
}

} // namespace paceline::model
