// How streamed products are launched: by the format of their weights.
#include "gpu/stream_launch.hpp"

#include "gpu/kernels/streamed_params.hpp"
#include "gpu/pieces.hpp"
#include "runtime/base/check.hpp"

#include <bit>
#include <string>

namespace paceline::gpu {
namespace {

/// Whether a launch's shared memory suffices for weights, and a warp's part of it for its sums.
constexpr bool has_room(device::tensor_type type) {
  return stream_shared_bytes(type) <= most_shared_bytes &&
         stream_strips * streamed_layout_of(type).slot_bytes() >=
             streamed_rows * stream_sums_row * sizeof(float);
}
static_assert(has_room(device::tensor_type::q4_0) && has_room(device::tensor_type::q4_1) &&
              has_room(device::tensor_type::q4_k) && has_room(device::tensor_type::q5_0) &&
              has_room(device::tensor_type::q5_k) && has_room(device::tensor_type::q6_k) &&
              has_room(device::tensor_type::q8_0) && has_room(device::tensor_type::f8_e4m3) &&
              has_room(device::tensor_type::f16) && has_room(device::tensor_type::bf16));

constexpr std::uint8_t number(kernel_id kernel) { return static_cast<std::uint8_t>(kernel); }
constexpr std::uint8_t num_formats = number(kernel_id::stream16_q4_0) - number(kernel_id::stream_q4_0);
static_assert(num_formats == number(kernel_id::stream_bf16) - number(kernel_id::stream_q4_0) + 1 &&
              number(kernel_id::stream64_bf16) - number(kernel_id::stream_q4_0) + 1 == 4 * num_formats &&
              number(kernel_id::expert_bf16) - number(kernel_id::expert_q4_0) + 1 == num_formats);

/// The kernel for up to 8 rows.
kernel_id narrow_kernel_for(device::tensor_type type) {
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

} // namespace

kernel_id stream_kernel_for(device::tensor_type type, std::uint32_t num_tiles) {
  const auto width = static_cast<std::uint32_t>(std::countr_zero(num_tiles)); // 1, 2, 4 or 8 tiles
  return static_cast<kernel_id>(number(narrow_kernel_for(type)) + width * num_formats);
}

kernel_id expert_kernel_for(device::tensor_type type) {
  return static_cast<kernel_id>(number(narrow_kernel_for(type)) - number(kernel_id::stream_q4_0) +
                                number(kernel_id::expert_q4_0));
}

std::uint32_t tiles_of_strip(const streamed_weights& weights) {
  const streamed_layout layout = streamed_layout_of(weights.type);
  return pieces(weights.num_cols, layout.span_cols()) * layout.tiles_of_span;
}

} // namespace paceline::gpu
