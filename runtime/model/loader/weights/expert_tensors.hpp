#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/model/loader/weights/expert_matrices.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::model {

/// Says which matrices of a layer's experts are in one tensor of a file.
struct expert_part {
  tensor_role role = tensor_role::ffn_gate_experts;
  std::optional<std::uint32_t> expert; ///< nullopt: all experts, one after another
  /// the tensor has, for each expert, the gate matrix followed by the up matrix; `role` is the gate's
  bool gate_and_up = false;
};

/// The expert matrices that a tensor with this name (without the layer's prefix) holds; nullopt: none. Files
/// have one tensor for all experts ("ffn_gate_exps.weight", "mlp.experts.gate_up_proj") or, in Hugging Face's
/// older form, one for each ("mlp.experts.5.gate_proj.weight").
std::optional<expert_part> parse_expert_part(std::string_view name, tensor_naming naming,
                                             const model_config& config) noexcept;

/// Collects the matrices of a layer's experts from tensors in any order. Errors name `file`, the tensor and
/// the rule that it breaks.
class expert_tensors {
 public:
  /// Adds the matrices in `tensor`. Error unless they have the shapes that `config` gives for layer
  /// `layer`.
  expected<void> add(const expert_part& part, const weight_view& tensor, const model_config& config,
                     std::uint32_t layer, std::string_view file);

  /// Moves out the matrices of a role: one for each expert, all of one type. `name`: the name of a tensor
  /// with the matrices of all experts. An error calls a missing tensor by this name, unless the file has
  /// tensors for single experts.
  expected<expert_matrices> take(tensor_role role, const model_config& config, std::string_view name,
                                 std::string_view file);

 private:
  /// What was added for one role.
  struct collected {
    expert_matrices all;       ///< from one tensor for all experts
    std::string_view all_name; ///< name of that tensor
    std::string_view twice;    ///< name of a second one, which is an error
    std::vector<std::pair<std::uint32_t, weight_view>>
        each; ///< from tensors for one expert each, with its index
  };

  collected& of(tensor_role role);
  /// The name of the tensor of one expert in this file, or `name_of_all` if the file has no such tensors.
  std::string missing_name(tensor_role role, std::size_t expert, const model_config& config,
                           std::string_view name_of_all) const;

  std::array<collected, num_expert_roles> roles_;
  std::string_view before_number_; ///< "...experts." of a tensor for one expert; empty: there was none
};

} // namespace paceline::model
