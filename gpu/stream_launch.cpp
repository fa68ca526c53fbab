// How streamed products are launched: by the format of their weights.
#include "gpu/stream_launch.hpp"

#include "gpu/kernels/streamed_params.hpp"
#include "gpu/pieces.hpp"
#include "runtime/base/check.hpp"

#include <string>

namespace paceline::gpu {
namespace {

/// Shared memory that a launch can have without asking for more.
constexpr std::uint32_t most_shared_bytes = 48 * 1024;

static_assert(stream_shared_bytes(device::tensor_type::q4_0) <= most_shared_bytes);
static_assert(stream_shared_bytes(device::tensor_type::q4_1) <= most_shared_bytes);
static_assert(stream_shared_bytes(device::tensor_type::q4_k) <= most_shared_bytes);
static_assert(stream_shared_bytes(device::tensor_type::q5_0) <= most_shared_bytes);
static_assert(stream_shared_bytes(device::tensor_type::q5_k) <= most_shared_bytes);
static_assert(stream_shared_bytes(device::tensor_type::q6_k) <= most_shared_bytes);
static_assert(stream_shared_bytes(device::tensor_type::q8_0) <= most_shared_bytes);
static_assert(stream_shared_bytes(device::tensor_type::f8_e4m3) <= most_shared_bytes);
static_assert(stream_shared_bytes(device::tensor_type::f16) <= most_shared_bytes);
static_assert(stream_shared_bytes(device::tensor_type::bf16) <= most_shared_bytes);

} // namespace

kernel_id stream_kernel_for(device::tensor_type type) {
  using device::tensor_type;
  switch (type) {
  case tensor_type::q4_0:
    return kernel_id::stream_q4_0;
  case tensor_type::q4_1:
    return kernel_id::stream_q4_1;
  case tensor_type::q4_k:
    return kernel_id::stream_q4_k;
  case tensor_type::q5_0:
    return kernel_id::stream_q5_0;
  case tensor_type::q5_k:
    return kernel_id::stream_q5_k;
  case tensor_type::q6_k:
    return kernel_id::stream_q6_k;
  case tensor_type::q8_0:
    return kernel_id::stream_q8_0;
  case tensor_type::f8_e4m3:
    return kernel_id::stream_f8;
  case tensor_type::f16:
    return kernel_id::stream_f16;
  case tensor_type::bf16:
    return kernel_id::stream_bf16;
  default:
    PACELINE_CHECK(false, "weights of type " + std::to_string(static_cast<int>(type)) + " are not streamed");
  }
}

std::uint32_t tiles_of_strip(const streamed_weights& weights) {
  const streamed_layout layout = streamed_layout_of(weights.type);
  return pieces(weights.num_cols, layout.span_cols()) * layout.tiles_of_span;
}

kernel_id expert_kernel_for(device::tensor_type type) {
  constexpr auto number = [](kernel_id kernel) { return static_cast<std::uint8_t>(kernel); };
  static_assert(number(kernel_id::stream_bf16) - number(kernel_id::stream_q4_0) ==
                number(kernel_id::expert_bf16) - number(kernel_id::expert_q4_0));
  return static_cast<kernel_id>(number(stream_kernel_for(type)) - number(kernel_id::stream_q4_0) +
                                number(kernel_id::expert_q4_0));
}

} // namespace paceline::gpu
