// A mixture of experts on a GPU: its sets of weights, and the op.
#include "gpu/cuda_device.hpp"
#include "gpu/cuda_matrix.hpp"
#include "gpu/cuda_ops.hpp"
#include "runtime/base/check.hpp"
#include "runtime/device/op_expert_mixture.hpp"
#include "runtime/device/op_matmul.hpp"
#include "runtime/device/op_rms_norm.hpp"

#include <algorithm>
#include <array>
#include <deque>

namespace paceline::gpu {
namespace {

using matrices = std::vector<std::unique_ptr<const device::matrix>>;

/// The alignment of allocations.
constexpr std::size_t slab_alignment = 256;

const cuda_matrix& matrix_on(const device_context& on, const device::matrix& one) {
  const auto* const found = dynamic_cast<const cuda_matrix*>(&one);
  PACELINE_CHECK(found != nullptr && &found->on() == &on, "make_set: a matrix is not of " + on.name);
  return *found;
}

/// What a matrix occupies on the device.
struct occupied {
  const std::byte* bytes;
  std::size_t num_bytes;
  std::size_t num_multipliers;

  explicit occupied(const cuda_matrix& of)
      : bytes(of.is_streamed() ? of.streamed().bytes : of.rows().bytes),
        num_bytes(of.is_streamed() ? of.streamed().num_strips() * of.streamed().strip_bytes
                                   : of.rows().num_rows * of.rows().row_bytes),
        num_multipliers(of.streamed().multipliers != nullptr ? of.streamed().num_strips() * strip_rows : 0) {}
};

/// Adds the matrix `from`, whose bytes have moved.
void add_moved(std::deque<cuda_matrix>& to, const cuda_matrix& from, const std::byte* bytes,
               const std::byte* multipliers, std::uint64_t size_bytes) {
  weight_rows rows = from.rows();
  streamed_weights streamed = from.streamed();
  (from.is_streamed() ? streamed.bytes : rows.bytes) = bytes;
  if (streamed.multipliers != nullptr) streamed.multipliers = reinterpret_cast<const float*>(multipliers);
  to.emplace_back(from.on(), size_bytes, rows, streamed);
}

const cuda_matrix_set& set_on(const device_context& on, const device::matrix_set* set) {
  const auto* const found = dynamic_cast<const cuda_matrix_set*>(set);
  PACELINE_CHECK(found != nullptr && &found->on() == &on,
                 "expert_mixture: the weights are not of " + on.name);
  return *found;
}

/// The part of a mixture for `num_rows` rows from `first` on.
device::expert_mixture_args part_of(const device::expert_mixture_args& args, std::uint32_t first,
                                    std::uint32_t num_rows) {
  device::expert_mixture_args out = args;
  out.x += first * args.x_stride;
  out.num_rows = num_rows;
  if (args.norm.weight != nullptr) out.norm.normed += std::size_t{first} * args.num_cols;
  out.workspace += first * device::expert_values_per_row(args.routing, args.gate->at(0).num_rows(),
                                                         args.down->at(0).num_rows(),
                                                         args.weigh_inputs ? args.num_cols : 0);
  out.out += first * args.out_stride;
  return out;
}

} // namespace

/// Moves the matrices so that they are adjacent, because kernels find an expert by its number. During the
/// move the device holds the matrices twice.
expected<std::unique_ptr<const device::matrix_set>> cuda_device::make_set(std::string_view name,
                                                                          matrices from) {
  device::check_set(name, from);
  const occupied one(matrix_on(context_, *from[0]));
  const std::size_t slab_bytes = (one.num_bytes + slab_alignment - 1) / slab_alignment * slab_alignment;
  const matrix_strides strides{slab_bytes, one.num_multipliers};
  const std::size_t multiplier_bytes = one.num_multipliers * sizeof(float);
  try {
    context_.require(context_.api.use(context_.index), "cudaSetDevice");
    memory bytes(context_, memory_kind::on_device, from.size() * slab_bytes);
    memory multipliers;
    if (multiplier_bytes != 0)
      multipliers = memory(context_, memory_kind::on_device, from.size() * multiplier_bytes);
    std::deque<cuda_matrix> all;
    const std::lock_guard lock(transfer_mutex_);
    for (std::size_t i = 0; i < from.size(); ++i) {
      const cuda_matrix& matrix = matrix_on(context_, *from[i]);
      std::byte* const slab = bytes.data() + i * slab_bytes;
      std::byte* const of_slab = multipliers.data() + i * multiplier_bytes;
      transfer_queue_->copy_within(slab, occupied(matrix).bytes, one.num_bytes);
      transfer_queue_->copy_within(of_slab, matrix.streamed().multipliers, multiplier_bytes);
      add_moved(all, matrix, slab, of_slab, slab_bytes + multiplier_bytes);
    }
    transferred_->record(*transfer_queue_);
    transferred_->wait();
    return std::unique_ptr<const device::matrix_set>(
        std::make_unique<cuda_matrix_set>(std::move(bytes), std::move(multipliers), std::move(all), strides));
  } catch (const cuda_failure& e) {
    return error(e.error()).within("tensor " + std::string(name));
  }
}

void cuda_ops::expert_mixture(const device::expert_mixture_args& args) {
  device::check_mixture(args);
  const device_context& on = steps_.on();
  const expert_sets sets{&set_on(on, args.gate), &set_on(on, args.up), &set_on(on, args.down)};
  expect_rows(args.num_rows);
  for (std::uint32_t first = 0; first < args.num_rows; first += expert_products::most_rows) {
    device::expert_mixture_args part =
        part_of(args, first, std::min(args.num_rows - first, expert_products::most_rows));
    if (part.norm.weight != nullptr) {
      rms_norm({part.x, part.x_stride, part.norm.normed, part.num_cols, part.norm.weight, part.num_rows, 1,
                part.num_cols, part.norm.epsilon});
      part.x = part.norm.normed;
      part.x_stride = part.num_cols;
    }
    const std::array logits{device::matmul_output{part.router, part.workspace, part.routing.num_experts,
                                                  part.router_bias, false}};
    matmul({part.x, part.x_stride, part.num_rows, part.num_cols, false, logits});
    experts_.run(part, sets);
  }
}

} // namespace paceline::gpu
