#pragma once

#include "gpu/cuda_failure.hpp"

#include <cstddef>
#include <utility>

// Classes that own resources of the CUDA runtime and release them. Constructors, and all functions that call
// the runtime, throw cuda_failure; destructors do not. The `device_context` must outlive the owners. A failed
// release is not reported, because its only cause is a lost device, and that makes every later call fail.

namespace paceline::gpu {

enum class memory_kind : bool { on_device, pinned };

/// A piece of memory, aligned to 256 bytes; empty if default-constructed.
class memory {
 public:
  memory() = default;
  memory(const device_context& on, memory_kind kind, std::size_t num_bytes);
  ~memory();
  memory(memory&& other) noexcept;
  memory& operator=(memory&& other) noexcept;

  std::byte* data() const noexcept { return static_cast<std::byte*>(at_); }
  std::size_t size_bytes() const noexcept { return num_bytes_; }

 private:
  const device_context* on_ = nullptr;
  memory_kind kind_ = memory_kind::on_device;
  void* at_ = nullptr;
  std::size_t num_bytes_ = 0;
};

/// Decides whether the next launch of a queue or graph may start before the last command has ended (CUDA's
/// programmatic dependent launch). It may if the last command is a launch too, if both kernels support it
/// (`takes_turns`), and if the device allows it.
class launch_run {
 public:
  explicit launch_run(const device_context& on) : earliest_(on.earliest) {}

  launch_start start_of(kernel_id next) const noexcept {
    return is_open_ && takes_turns(next) ? earliest_ : launch_start::at_end;
  }
  void launched(kernel_id kernel) noexcept { is_open_ = takes_turns(kernel); }
  /// Call this after a command that is not a launch, or that failed.
  void end() noexcept { is_open_ = false; }

 private:
  const launch_start earliest_;
  bool is_open_ = false;
};

class event;

/// A cuBLASLt handle, usable on any thread.
class blas_handle {
 public:
  explicit blas_handle(const device_context& on);
  ~blas_handle();
  blas_handle(const blas_handle&) = delete;
  blas_handle& operator=(const blas_handle&) = delete;

  raw_blas raw() const noexcept { return raw_; }

 private:
  const device_context& on_;
  raw_blas raw_ = nullptr;
};

/// A CUDA stream. `urgency`: see runtime_api::make_stream.
class command_queue {
 public:
  command_queue(const device_context& on, int urgency);
  ~command_queue();
  command_queue(const command_queue&) = delete;
  command_queue& operator=(const command_queue&) = delete;

  const device_context& on() const noexcept { return on_; }
  /// For commands that this class does not offer. The next launch starts when they have ended.
  raw_stream raw() noexcept {
    run_.end();
    return raw_;
  }

  void copy_in(void* to, const void* from, std::size_t num_bytes);
  void copy_out(void* to, const void* from, std::size_t num_bytes);
  void copy_within(void* to, const void* from, std::size_t num_bytes);
  void fill(void* to, std::uint8_t value, std::size_t num_bytes);
  /// The kernel starts early if possible (`launch_start::early`). Its parameters at `params` are copied.
  void launch(kernel_id kernel, const launch_shape& shape, const void* params, std::size_t params_bytes);
  /// A cooperative launch: all of its blocks run at the same time.
  void launch_together(kernel_id kernel, const launch_shape& shape, const void* params,
                       std::size_t params_bytes);
  void multiply(const blas_handle& blas, const blas_command& command);
  /// Makes later commands wait, on the device, for the last record of `point`.
  void wait_for(const event& point);

 private:
  const device_context& on_;
  raw_stream raw_ = nullptr;
  launch_run run_;
};

/// A CUDA event.
class event {
 public:
  /// `is_timed` allows `seconds_since`.
  explicit event(const device_context& on, bool is_timed = false);
  ~event();
  event(const event&) = delete;
  event& operator=(const event&) = delete;

  raw_event raw() const noexcept { return raw_; }

  void record(command_queue& queue);
  /// Blocks until the device has reached the event: polls for `device_context::polling`, then sleeps.
  void wait();
  /// Seconds by the device's clock between two timed events that the device has reached.
  double seconds_since(const event& earlier) const;

 private:
  const device_context& on_;
  raw_event raw_ = nullptr;
};

} // namespace paceline::gpu
