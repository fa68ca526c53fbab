#pragma once

#include "gpu/cuda_device.hpp"
#include "runtime/device/op_elementwise.hpp"
#include "runtime/device/ops.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace paceline::gpu {

inline constexpr std::uint32_t width = 8;

/// A GPU with rows of numbers: row r is r, r, ...
class rows_on_gpu {
 public:
  explicit rows_on_gpu(runtime_api& api) : gpu(*cuda_device::open(api, 0)) {
    std::vector<float> values;
    for (int r = 0; r < 8; ++r) values.insert(values.end(), width, static_cast<float>(r));
    rows_ = gpu->allocate(values.size() * sizeof(float));
    rows_->upload(0, std::as_bytes(std::span(values)));
    picked_ = gpu->allocate(4 * width * sizeof(float));
  }

  const float* rows() const { return reinterpret_cast<const float*>(rows_->data()); }
  /// Memory for a row on the GPU.
  float* slot(std::size_t index) const { return reinterpret_cast<float*>(picked_->data()) + index * width; }

  /// Copies row `row` to `to`; the row's number travels through mirrored memory.
  void pick(device::ops& ops, float* to, std::uint32_t row) const {
    ops.gather({to, width, rows(), width, &row, 1, width});
  }
  /// Copies `from` to the host.
  static void fetch(device::ops& ops, std::vector<float>& to, const float* from) {
    ops.gather({ops.place_for(to), width, from, width, nullptr, 1, width});
    ops.deliver();
  }

  std::unique_ptr<cuda_device> gpu;

 private:
  std::unique_ptr<device::buffer> rows_, picked_;
};

inline std::vector<float> row_of(float value) { return std::vector<float>(width, value); }

/// All orders of `a` commands of stream 1 and `b` commands of stream 2.
inline std::vector<std::vector<std::size_t>> interleavings(std::size_t a, std::size_t b) {
  std::vector<std::size_t> order(a, 1);
  order.insert(order.end(), b, 2);
  std::vector<std::vector<std::size_t>> all;
  do all.push_back(order);
  while (std::next_permutation(order.begin(), order.end()));
  return all;
}

// Commands of programs. A pick is a copy and a launch. A fetch is a launch, a copy and its event, and
// everything before it has then been done. The end of a program that continues after a fetch is one more
// event.
inline constexpr std::size_t pick_commands = 2, fetch_commands = 3, end_commands = 1;

} // namespace paceline::gpu
