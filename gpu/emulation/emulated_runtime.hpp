#pragma once

#include "gpu/emulation/device_memory.hpp"
#include "gpu/emulation/emulated_graph.hpp"
#include "gpu/emulation/launch_line.hpp"
#include "gpu/runtime_api.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace paceline::gpu::emulation {

/// A CUDA runtime without a GPU. Kernels run on the emulation of blocks and warps, in memory that the host
/// cannot access. A command runs during the call, on the calling thread, unless a subclass overrides `defer`.
/// Kernels are an exception: they run when later commands of their stream arrive (launch_line), at the latest
/// when an event is recorded.
class emulated_runtime : public runtime_api {
 public:
  /// `seed` decides the order of threads and blocks, how many blocks start early, and the number of
  /// multiprocessors (2 to 5).
  explicit emulated_runtime(std::uint64_t seed = 0) : seed_(seed), num_multiprocessors_(2 + seed % 4) {}

  status num_devices(int& out) override;
  status inspect(int device, device_facts& out) override;
  status find_kernel_target(int& out) override;
  status use(int device) override;
  status count_free(std::size_t& out) override;
  status allocate(void*& out, std::size_t num_bytes) override;
  status release(void* memory) override;
  status allocate_pinned(void*& out, std::size_t num_bytes) override;
  status release_pinned(void* memory) override;
  status make_stream(raw_stream& out, int urgency) override;
  status end_stream(raw_stream stream) override;
  status make_event(raw_event& out, bool is_timed) override;
  status end_event(raw_event event) override;
  status record(raw_event event, raw_stream stream) override;
  status wait(raw_event event) override;
  status has_come_to(bool& out, raw_event event) override;
  status elapsed(double& seconds, raw_event from, raw_event to) override;
  status wait_on_device(raw_stream stream, raw_event event) override;
  status copy_in(void* to, const void* from, std::size_t num_bytes, raw_stream stream) override;
  status copy_out(void* to, const void* from, std::size_t num_bytes, raw_stream stream) override;
  status copy_within(void* to, const void* from, std::size_t num_bytes, raw_stream stream) override;
  status fill(void* to, std::uint8_t value, std::size_t num_bytes, raw_stream stream) override;
  status launch(const launch_command& launch, raw_stream stream) override;
  status count_together(std::uint32_t& of_multiprocessor, std::uint32_t& num_multiprocessors,
                        kernel_id kernel, std::uint32_t threads, std::uint32_t shared_bytes) override;
  status launch_together(kernel_id kernel, const launch_shape& shape, const void* params,
                         std::size_t params_bytes, raw_stream stream) override;
  status make_graph(raw_graph& out) override;
  status end_graph(raw_graph graph) override;
  status add_copy(raw_node& out, raw_graph graph, raw_node after, const copy_command& copy) override;
  status add_launch(raw_node& out, raw_graph graph, raw_node after, const launch_command& launch) override;
  status make_executable(raw_executable& out, raw_graph graph) override;
  status end_executable(raw_executable graph) override;
  status update_copy(raw_executable graph, raw_node node, const copy_command& copy) override;
  status launch_graph(raw_executable graph, raw_stream stream) override;
  status make_blas(raw_blas& out) override;
  status end_blas(raw_blas blas) override;
  status choose_algorithm(blas_algorithm& out, raw_blas blas, const blas_product& product,
                          std::size_t workspace_bytes) override;
  status multiply(raw_blas blas, const blas_command& command, raw_stream stream) override;
  std::string describe(status failure) const override;
  failure_kind kind_of(status failure) const noexcept override;

  /// Makes one call with this name ("cudaMalloc", "cudaLaunchKernel", ...) fail as if the device were out of
  /// memory or lost. The next `skipped` calls with this name succeed first. A lost device stays lost.
  void fail(std::string call, std::uint32_t skipped, failure_kind how);
  /// Number of calls with this name so far.
  std::uint32_t num_calls(const std::string& call) const;
  /// Number of launches of `kernel` so far, including those in graphs.
  std::uint64_t num_launches(kernel_id kernel) const noexcept {
    return launches_of_[static_cast<std::size_t>(kernel)].load();
  }
  /// Bytes that the device was asked to copy to the host so far.
  std::uint64_t num_bytes_out() const noexcept { return num_bytes_out_.load(); }
  /// Sets the number of bytes reported as free; does not limit allocations.
  void have_free(std::size_t num_bytes) { free_bytes_ = num_bytes; }
  /// Number of launches so far with `launch_start::early`, including those in graphs.
  std::uint64_t num_early() const noexcept { return num_early_.load(); }
  /// Set the compute capability of the device, and the one for which the kernels were compiled. 90 (9.0) is
  /// the default of both. If either is lower, no launch starts early.
  void have_compute_capability(int number) { compute_capability_ = number; }
  void have_kernels_for(int number) { kernel_target_ = number; }
  /// The next `times` queries of events (`has_come_to`) report that the device has not reached the event.
  void say_not_yet(std::uint32_t times) { num_not_yet_ = times; }
  /// Sets the number of blocks that can be launched together.
  void have_multiprocessors(std::uint32_t number) { num_multiprocessors_ = number; }
  /// Number of objects that were not released: allocations of device memory and of pinned memory, streams,
  /// events, graphs, executables and handles of cuBLASLt.
  std::uint64_t num_owned() const noexcept { return num_owned_.load(); }

 protected:
  /// Runs `command`, the next one of `stream`.
  virtual void defer(raw_stream /*stream*/, std::function<void()> command) { command(); }
  /// Called by `wait`, and by `has_come_to` if it reports that the device has reached the event.
  virtual void await(raw_event /*event*/) {}
  /// Counts a call and returns its outcome.
  status called(const std::string& call);

 private:
  struct planned_failure {
    std::uint32_t skipped = 0;
    failure_kind how = failure_kind::other;
  };

  // Enqueue a command of a stream or of a graph launch, after the call was accepted.
  void enqueue(const copy_command& copy, raw_stream stream);
  void enqueue(const kept_launch& launch, launch_start start, raw_stream stream);
  /// Defers `command` until the earlier launches of the stream have ended.
  void defer_to_end(raw_stream stream, std::function<void()> command);
  void finish_all();
  bool can_start(launch_start start) const noexcept;
  std::shared_ptr<launch_line> line_of(raw_stream stream);
  std::uint64_t next_seed();

  const std::uint64_t seed_;
  std::atomic<std::uint64_t> num_launches_{0};
  std::array<std::atomic<std::uint64_t>, num_kernels> launches_of_{};
  std::atomic<std::uint64_t> num_early_{0};
  std::atomic<int> compute_capability_{90}, kernel_target_{90};
  std::atomic<std::uint32_t> num_not_yet_{0};
  std::atomic<std::uint64_t> num_owned_{0};
  std::atomic<std::uint64_t> num_bytes_out_{0};
  std::atomic<std::uint32_t>
      num_multiprocessors_; ///< Each has room for one block of a launch whose blocks run together.
  std::atomic<std::size_t> free_bytes_ = std::size_t{64} << 30;
  device_memory memory_;
  mutable std::mutex mutex_;
  std::unordered_map<raw_stream, std::shared_ptr<launch_line>> lines_;
  std::unordered_map<std::string, std::uint32_t> calls_;
  std::unordered_map<std::string, planned_failure> failures_;
  bool lost_ = false;
};

} // namespace paceline::gpu::emulation
