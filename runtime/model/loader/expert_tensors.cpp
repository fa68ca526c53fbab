#include "runtime/model/loader/expert_tensors.hpp"

#include <algorithm>
#include <charconv>

namespace paceline::model {

namespace {

/// Expert roles by their names in a file.
struct expert_name {
  std::string_view name;
  tensor_role role;
  bool gate_and_up = false;
};

constexpr expert_name gguf_names[] = {
    {"ffn_gate_exps.weight", tensor_role::ffn_gate_experts},
    {"ffn_up_exps.weight", tensor_role::ffn_up_experts},
    {"ffn_down_exps.weight", tensor_role::ffn_down_experts},
    {"ffn_gate_up_exps.weight", tensor_role::ffn_gate_experts, true},
};
constexpr std::string_view hf_prefixes[] = {"mlp.experts.", "feed_forward.experts."};
constexpr expert_name hf_names_of_all[] = {
    {"gate_up_proj", tensor_role::ffn_gate_experts, true},
    {"down_proj", tensor_role::ffn_down_experts},
};
constexpr expert_name hf_names_of_one[] = {
    {"gate_proj.weight", tensor_role::ffn_gate_experts}, {"up_proj.weight", tensor_role::ffn_up_experts},
    {"down_proj.weight", tensor_role::ffn_down_experts}, {"w1.weight", tensor_role::ffn_gate_experts}, // LFM2
    {"w3.weight", tensor_role::ffn_up_experts},          {"w2.weight", tensor_role::ffn_down_experts},
};

std::optional<expert_part> find_name(std::string_view name, std::span<const expert_name> names) noexcept {
  for (const expert_name& known : names)
    if (name == known.name) return expert_part{known.role, std::nullopt, known.gate_and_up};
  return std::nullopt;
}

std::string shape_text(std::uint64_t num_experts, std::uint64_t rows, std::uint64_t cols) {
  std::string text;
  for (const std::uint64_t size : {num_experts, rows, cols}) text += "[" + std::to_string(size) + "]";
  return text;
}

} // namespace

std::optional<expert_part> parse_expert_part(std::string_view name, tensor_naming naming) noexcept {
  if (naming == tensor_naming::gguf) return find_name(name, gguf_names);
  const auto* const prefix = std::ranges::find_if(hf_prefixes, [&](auto p) { return name.starts_with(p); });
  if (prefix == std::end(hf_prefixes)) return std::nullopt;
  name.remove_prefix(prefix->size());
  std::uint32_t expert = 0;
  const char* const last = name.data() + name.size();
  const auto [end, problem] = std::from_chars(name.data(), last, expert);
  if (end == name.data()) return find_name(name, hf_names_of_all);
  const bool leading_zero = end - name.data() > 1 && name[0] == '0';
  if (problem != std::errc() || leading_zero || end == last || *end != '.') return std::nullopt;
  auto part = find_name({end + 1, static_cast<std::size_t>(last - end - 1)}, hf_names_of_one);
  if (part) part->expert = expert;
  return part;
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
    return "must have the shape " + shape_text(count, rows, role_cols) + ", has " +
           shape_text(tensor.num_matrices, tensor.tensor.num_rows / tensor.num_matrices,
                      tensor.tensor.num_cols);
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
