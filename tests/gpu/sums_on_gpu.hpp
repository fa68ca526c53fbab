#pragma once

#include "gpu/emulation/emulated_runtime.hpp"
#include "gpu/step_queue.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline::gpu {

inline constexpr std::uint32_t count = 8;
inline constexpr std::size_t bytes = count * sizeof(float);

/// A queue, two sums on the device, and the device's messages. Uses stream 0 of its runtime.
class sums_on_gpu {
 public:
  explicit sums_on_gpu(emulation::emulated_runtime& api)
      : on{api, 0, "cuda:0", arithmetic::reference, [this](const std::string& r) { said.push_back(r); }},
        queue(on, 0), steps(queue), numbers_(on, memory_kind::on_device, bytes),
        sums_(on, memory_kind::on_device, 2 * bytes), sent_(on, memory_kind::pinned, 4 * bytes),
        fetched_(on, memory_kind::pinned, 2 * bytes) {
    queue.fill(sums_.data(), 0, 2 * bytes);
  }

  /// One of the two sums, and which of four places holds the values to add.
  struct where {
    std::size_t sum = 0;
    std::size_t sent_at = 0;
    std::uint32_t width = count;    ///< number of values to add
    std::uint32_t num_blocks = 1;   ///< further blocks have nothing to do
    std::size_t bytes_back = bytes; ///< of the sum
  };

  /// Records the commands that send values `value`, add them to a sum and fetch it.
  void note(float value, const where& to) {
    std::fill_n(sent(to.sent_at), count, value);
    steps.copy_in(numbers_.data(), sent(to.sent_at), bytes);
    steps.launch(
        kernel_id::add, {to.num_blocks, 1, 32, 0},
        add_params{sum_at(to.sum), count, reinterpret_cast<float*>(numbers_.data()), count, to.width});
    steps.copy_out(fetched_.data() + to.sum * bytes, sum_at(to.sum), to.bytes_back);
  }
  void note(float value) { note(value, {}); }
  /// The same as a complete step.
  void add(float value, const where& to) {
    note(value, to);
    steps.issue();
  }
  void add(float value) { add(value, {}); }

  float* sent(std::size_t at) { return reinterpret_cast<float*>(sent_.data() + at * bytes); }
  /// The sum as last fetched.
  float sum(std::size_t which = 0, std::size_t at = 0) const {
    return reinterpret_cast<const float*>(fetched_.data())[which * count + at];
  }

  std::vector<std::string> said;
  device_context on;
  command_queue queue;
  step_queue steps;

 private:
  float* sum_at(std::size_t which) { return reinterpret_cast<float*>(sums_.data()) + which * count; }

  memory numbers_, sums_, sent_, fetched_;
};

} // namespace paceline::gpu
