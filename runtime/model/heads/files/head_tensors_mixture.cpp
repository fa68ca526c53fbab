// The mixture of experts of a head's layer.
#include "runtime/device/stored_block.hpp"
#include "runtime/model/heads/files/head_tensors.hpp"
#include "runtime/model/loader/weights/expert_tensors.hpp"
#include "runtime/model/loader/weights/fp8_weights.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::model {

namespace {

/// A tensor with three dimensions stands for all its matrices, one after another.
weight_view view_of(const head_tensor& tensor) {
  const std::uint32_t dims = tensor.num_dims;
  const std::uint64_t count = dims > 2 ? tensor.shape[dims - 3] : 1;
  const std::uint64_t rows = dims > 1 ? tensor.shape[dims - 2] : 1;
  return {tensor.name,
          {tensor.type, count * rows, tensor.shape[dims - 1], tensor.data},
          tensor.scales.get(),
          count};
}

} // namespace

std::unique_ptr<const device::matrix> head_tensors::floating_matrix(const std::string& name,
                                                                    std::uint64_t rows, std::uint64_t cols) {
  const auto taken = take_weights(name, true, rows, cols, false);
  if (!taken) return nullptr;
  std::vector<float> values(rows * cols);
  device::dequantize(taken->type, taken->data, values);
  taken->release(taken->data);
  return keep(
      weights_->pack(taken->name, {device::tensor_type::f32, rows, cols, std::as_bytes(std::span(values))}));
}

std::vector<head_tensors::expert_tensor>
head_tensors::take_experts(const std::string& prefix, tensor_naming naming, const model_config& config) {
  std::vector<expert_tensor> taken;
  for (auto next = tensors_.lower_bound(prefix); next != tensors_.end() && next->first.starts_with(prefix);) {
    const auto one = next++;
    const std::string_view name = std::string_view(one->first).substr(prefix.size());
    const auto part = parse_expert_part(name, naming, config);
    if (!part) continue;
    const head_tensor& tensor = one->second;
    if (tensor.num_dims == 0 || tensor.num_dims > 3)
      refuse(tensor.name, "must have 1 to 3 dimensions, has " + std::to_string(tensor.num_dims));
    if (has_weights(tensor, true)) taken.push_back({*part, tensor});
    tensors_.erase(one);
  }
  return taken;
}

std::unique_ptr<const device::matrix_set> head_tensors::pack_experts(const expert_matrices& matrices,
                                                                     std::span<const expert_tensor> tensors) {
  const auto pack_one = [&](const weight_view& one) -> expected<std::unique_ptr<const device::matrix>> {
    const auto name_of = [](const expert_tensor& each) -> const std::string& { return each.tensor.name; };
    const head_tensor& from = std::ranges::find(tensors, one.name, name_of)->tensor;
    if (auto read = from.read(one.tensor.bytes); !read) return std::move(read).error();
    device::tensor_view view = one.tensor;
    std::vector<std::byte> blocks;
    if (one.scales != nullptr) view.bytes = blocks = f8_blocks(one);
    auto made = packed(from.name, view);
    from.release(one.tensor.bytes);
    return made;
  };
  return keep(pack_set(matrices, *weights_, pack_one));
}

void head_tensors::mixture(const std::string& prefix, tensor_naming naming, const model_config& config,
                           layer_weights& to) {
  const std::string mlp = prefix + "mlp.";
  const std::uint64_t hidden = config.hidden_size, shared = config.experts.shared_ffn_size;
  const std::uint32_t num_experts = config.experts.routing.num_experts;
  to.experts = std::make_unique<expert_weights>();
  expert_weights& experts = *to.experts;
  experts.router = floating_matrix(mlp + "gate.weight", num_experts, hidden);
  if (shared != 0) {
    experts.shared_scale = floating_matrix(mlp + "shared_expert_gate.weight", 1, hidden);
    experts.shared_gate = matrix(mlp + "shared_expert.gate_proj.weight", shared, hidden);
    experts.shared_up = matrix(mlp + "shared_expert.up_proj.weight", shared, hidden);
    experts.shared_down = matrix(mlp + "shared_expert.down_proj.weight", hidden, shared);
  }
  const auto tensors = take_experts(prefix, naming, config);
  if (failure_) return;
  expert_tensors found;
  for (const auto& [part, tensor] : tensors)
    if (auto added = found.add(part, view_of(tensor), config, 0, path_); !added && !failure_)
      failure_ = std::move(added).error();
  const std::pair<tensor_role, std::unique_ptr<const device::matrix_set>*> sets[] = {
      {tensor_role::ffn_gate_experts, &experts.gate},
      {tensor_role::ffn_up_experts, &experts.up},
      {tensor_role::ffn_down_experts, &experts.down},
  };
  for (const auto& [role, set] : sets) {
    if (failure_) return;
    const std::string name = file_name(prefix + std::string(tensor_name(role, naming, config)));
    const auto matrices = keep(found.take(role, config, name, path_));
    if (!failure_) *set = pack_experts(matrices, tensors);
  }
}

} // namespace paceline::model
