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

/// Thrown when a call to the CUDA runtime fails. If work cannot continue without the call, the exception
/// becomes the failure of a fence, or the error returned by opening a device or loading a model.
class cuda_failure : public std::runtime_error {
 public:
  explicit cuda_failure(paceline::error e) : std::runtime_error(e.message()), error_(std::move(e)) {}
  const paceline::error& error() const noexcept { return error_; }

 private:
  paceline::error error_;
};

/// The step times of a device's queues (device::step_times). Used by any thread.
struct step_clock {
  std::atomic<std::uint64_t> num_steps{0};
  std::atomic<std::int64_t> busy_ns{0};
  std::atomic<std::int64_t> launching_ns{0};
};

/// The data that all parts of one GPU device share.
struct device_context {
  runtime_api& api;
  int index = 0;
  std::string name; ///< "cuda:0"
  arithmetic products = arithmetic::reference;
  /// Receives messages for the operator on any thread; may be empty.
  std::function<void(const std::string&)> say = {};
  launch_start earliest = launch_start::at_end; ///< how early its launches may start
  step_clock* clock = nullptr;                  ///< null: steps are not timed
  std::chrono::microseconds polling{0};         ///< how long a wait for the device polls before it sleeps

  /// The failure as an error, "cuda:0: cudaMalloc: out of memory (...), at gpu/owners.cpp:40", with code
  /// `device_lost`, `resource_exhausted` or `internal`.
  error error_of(status failure, std::string_view call,
                 std::source_location place = std::source_location::current()) const;
  /// Throws cuda_failure unless `outcome` is success.
  void require(status outcome, std::string_view call,
               std::source_location place = std::source_location::current()) const;
};

} // namespace paceline::gpu
