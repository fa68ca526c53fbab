#include "runtime/model/loader/expert_tensors.hpp"

#include <algorithm>
#include <array>
#include <charconv>

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
  std::uint32_t expert = 0;
  const char* const last = name.data() + name.size();
  const auto [end, problem] = std::from_chars(name.data(), last, expert);
  const bool leading_zero = end - name.data() > 1 && name[0] == '0';
  if (problem != std::errc() || leading_zero || end == last || *end != '.') return std::nullopt;
  name = {end + 1, static_cast<std::size_t>(last - end - 1)};
  for (const auto& [role, dense] : expert_roles)
    if (name == behind_block(tensor_name(dense, tensor_naming::hugging_face, config)))
      return expert_part{role, expert, false};
  return std::nullopt;
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

std::optional<std::string> expert_tensors::add(const expert_part& part, tensor_role role,
                                               const weight_view& tensor, std::uint32_t num_experts,
                                               std::uint64_t role_rows, std::uint64_t role_cols) {
  const std::uint64_t count = part.expert ? 1 : num_experts;
  const std::uint64_t rows = part.gate_and_up ? 2 * role_rows : role_rows;
  if (part.expert && *part.expert >= num_experts)
    return "belongs to expert " + std::to_string(*part.expert) + " of a layer with " +
           std::to_string(num_experts) + " experts";
  if (tensor.num_matrices != count || tensor.tensor.num_rows != count * rows ||
      tensor.tensor.num_cols != role_cols)
    return "must have the shape " + shape_text(std::array{count, rows, role_cols}) + ", has " +
           shape_text(std::array{tensor.num_matrices, tensor.tensor.num_rows / tensor.num_matrices,
                                 tensor.tensor.num_cols});
  if (tensor.scales != nullptr && count * rows != role_rows)
    return "holds several matrices in F8_E4M3, which is not supported";
  if (part.expert) {
    each_.emplace_back(*part.expert, tensor);
    return std::nullopt;
  }
  if (!all_.empty()) twice_ = tensor.name;
  const std::uint64_t first = role == tensor_role::ffn_up_experts && part.gate_and_up ? role_rows : 0;
  all_ = expert_matrices(tensor, {num_experts, role_rows, rows, first});
  all_name_ = tensor.name;
  return std::nullopt;
}

expert_matrices expert_tensors::take(std::uint32_t num_experts, expert_problem& problem) {
  problem.none = all_.empty() && each_.empty();
  problem.twice = !twice_.empty() || each_.empty() ? twice_ : all_name_;
  if (!problem.twice.empty() || problem.none) return {};
  if (each_.empty()) return std::move(all_);
  std::stable_sort(each_.begin(), each_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<weight_view> matrices;
  matrices.reserve(each_.size());
  for (const auto& [expert, view] : each_) {
    if (expert < matrices.size()) problem.twice = view.name;
    if (expert != matrices.size()) break;
    matrices.push_back(view);
  }
  if (problem.twice.empty() && matrices.size() < num_experts)
    problem.missing = static_cast<std::uint32_t>(matrices.size());
  each_ = {};
  return expert_matrices(std::move(matrices));
}

} // namespace paceline::model
