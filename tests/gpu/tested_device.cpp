#include "tests/gpu/tested_device.hpp"

#include "runtime/device/op_elementwise.hpp"

namespace paceline::gpu {

void gpu_test::fetch(device::ops& ops, const float* from, std::vector<float>& to) {
  const auto width = static_cast<std::uint32_t>(to.size());
  ops.gather({ops.place_for(to), width, from, width, nullptr, 1, width});
  ops.deliver();
}

} // namespace paceline::gpu
