#pragma once

#include "gpu/kernels/sixteen_bit.hpp"
#include "gpu/runtime_api.hpp"
#include "runtime/base/error.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace paceline::gpu {

/// A failed call to the CUDA runtime, on its way to the fence, the load or the configuration that it fails.
class cuda_failure : public std::runtime_error {
 public:
  explicit cuda_failure(paceline::error e) : std::runtime_error(e.message()), error_(std::move(e)) {}
  const paceline::error& error() const noexcept { return error_; }

 private:
  paceline::error error_;
};

/// Where the queues of a device note what steps took (device::step_times). Used by any thread.
struct step_clock {
  std::atomic<std::uint64_t> num_steps{0};
  std::atomic<std::int64_t> busy_ns{0};
  std::atomic<std::int64_t> launching_ns{0};
};

/// A device of a runtime: where calls go, and what their failures are called by.
struct device_context {
  runtime_api& api;
  int index = 0;
  std::string name; ///< "cuda:0"
  arithmetic products = arithmetic::reference;
  /// Takes remarks for whoever operates the machine, of any thread; may be empty.
  std::function<void(const std::string&)> say = {};
  launch_start earliest = launch_start::at_end; ///< that launches on it may have
  step_clock* clock = nullptr;                  ///< null: steps are not timed
  std::chrono::microseconds polling{0};         ///< that a wait for the device begins with, before it sleeps

  /// The failure as an error of ours, "cuda:0: cudaMalloc: out of memory (...), at gpu/owners.cpp:40": of
  /// code `device_lost`, `resource_exhausted` or `internal`.
  error error_of(status failure, std::string_view call,
                 std::source_location place = std::source_location::current()) const;
  /// Throws cuda_failure unless `outcome` is success.
  void require(status outcome, std::string_view call,
               std::source_location place = std::source_location::current()) const;
};

} // namespace paceline::gpu
