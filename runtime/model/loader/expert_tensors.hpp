#pragma once

#include "runtime/model/loader/expert_matrices.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::model {

/// The matrices of a layer's experts that one tensor of a file holds.
struct expert_part {
  tensor_role role = tensor_role::ffn_gate_experts;
  std::optional<std::uint32_t> expert; ///< nullopt: those of all experts, one after another
  /// for each expert the tensor has first gate, then up; `role` is the role of gate
  bool gate_and_up = false;
};

/// The expert matrices that a tensor with this name (without the layer's prefix) holds; nullopt: none. Files
/// have one tensor for all experts ("ffn_gate_exps.weight", "mlp.experts.gate_up_proj") or, in Hugging Face's
/// older form, one for each ("mlp.experts.5.gate_proj.weight").
std::optional<expert_part> parse_expert_part(std::string_view name, tensor_naming naming,
                                             const model_config& config) noexcept;

/// What is wrong with the matrices of a role.
struct expert_problem {
  std::string_view twice;               ///< name of a tensor whose matrix another tensor has given already
  std::optional<std::uint32_t> missing; ///< the first expert without a matrix
  bool none = false;                    ///< no expert has one
};

/// Collects the matrices of one role of a layer's experts from tensors in any order.
class expert_tensors {
 public:
  /// Adds the matrices in `tensor`; `role_rows` and `role_cols` are those of one expert's matrix of `role`,
  /// which is gate or up if the tensor has both. The error is the rule that the tensor breaks.
  std::optional<std::string> add(const expert_part& part, tensor_role role, const weight_view& tensor,
                                 std::uint32_t num_experts, std::uint64_t role_rows, std::uint64_t role_cols);

  /// The matrices, one for each expert, unless there is a problem.
  expert_matrices take(std::uint32_t num_experts, expert_problem& problem);

 private:
  expert_matrices all_;                                     ///< of a tensor with those of all experts
  std::string_view all_name_;                               ///< of that tensor
  std::string_view twice_;                                  ///< name of a second such tensor
  std::vector<std::pair<std::uint32_t, weight_view>> each_; ///< of tensors for one expert
};

} // namespace paceline::model
