#pragma once

#include "runtime/model/loader/weights/tensor_role.hpp"

#include <span>
#include <string_view>

namespace paceline::model {

/// A tensor of a layer with the rows of several roles, one role after another: queries, keys and values, or
/// gate and up.
struct fused_tensor {
  std::string_view gguf;         ///< name after "blk.N."
  std::string_view hugging_face; ///< name after "model.layers.N."
  std::span<const tensor_role> roles;

  std::string_view name(tensor_naming naming) const noexcept {
    return naming == tensor_naming::gguf ? gguf : hugging_face;
  }
};

/// The fused tensor of this name; null if layers of the config's family have none.
const fused_tensor* fused_tensor_named(std::string_view name, tensor_naming naming,
                                       const model_config& config) noexcept;
/// The fused tensor with the rows of a role; null if the role has a tensor of its own.
const fused_tensor* fused_tensor_of(tensor_role role, const model_config& config) noexcept;

} // namespace paceline::model
