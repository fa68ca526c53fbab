#pragma once

#include "gpu/kernels/params.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace paceline::gpu {

/// Result of a call: 0 for success, else a number that `runtime_api::describe` understands.
using status = int;

/// What a failed call means for its caller.
enum class failure_kind : std::uint8_t {
  out_of_memory, ///< no device or pinned memory left; everything else continues
  device_lost,   ///< the context is unusable: every later call fails, too
  other,         ///< this call was invalid; the device continues
};

using raw_stream = void*;
using raw_event = void*;
using raw_graph = void*;
using raw_node = void*;       ///< node of a graph, destroyed with it
using raw_executable = void*; ///< a graph that can be launched
using raw_blas = void*;       ///< a cuBLASLt handle

struct device_facts {
  std::string name;
  int compute_capability = 0; ///< 90 for 9.0
  std::size_t memory_bytes = 0;
  /// Compute capability for which the kernels that the device runs were compiled; may be lower than that of
  /// the device.
  int kernel_target = 0;

  /// True if launches can start early. Kernels that were compiled for older GPUs must not start early,
  /// because their wait_for_previous does nothing.
  bool can_start_early() const noexcept { return compute_capability >= 90 && kernel_target >= 90; }
};

struct launch_shape {
  std::uint32_t blocks_x = 1;
  std::uint32_t blocks_y = 1;
  std::uint32_t threads = 1; ///< in a block
  std::uint32_t shared_bytes = 0;
  friend bool operator==(const launch_shape&, const launch_shape&) = default;
};

/// A copy in a graph, of at least one byte. Host memory must be pinned.
struct copy_command {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t num_bytes = 0;
  bool to_host = false; ///< else to the device
};

/// When a launch may start.
enum class launch_start : bool {
  at_end, ///< when everything before it has ended
  /// When all blocks of the previous kernel, on the stream or in the graph, have allowed it (let_next_begin)
  /// or ended. The kernel itself then waits for the end of the previous one (wait_for_previous). Both kernels
  /// must be listed in `takes_turns`, and the device needs compute capability 9.0 or later.
  early,
};

/// A launch. `params` points to the kernel's struct, which is copied at the call.
struct launch_command {
  kernel_id kernel{};
  launch_shape shape;
  const void* params = nullptr;
  std::size_t params_bytes = 0;
  launch_start start = launch_start::at_end;
};

enum class blas_type : std::uint8_t { f16, f32 };

/// A matrix in cuBLASLt's layout, column-major: column c begins at value c * stride.
struct blas_matrix {
  blas_type type = blas_type::f32;
  std::uint64_t num_rows = 0;
  std::uint64_t num_cols = 0;
  std::uint64_t stride = 0;
  friend bool operator==(const blas_matrix&, const blas_matrix&) = default;
};

/// d = op(a) * b, where op(a) is a or its transpose, with float32 sums in an order chosen by cuBLASLt. Each
/// matrix begins at a multiple of 256 bytes.
struct blas_product {
  blas_matrix a;
  blas_matrix b;
  blas_matrix d;
  bool transpose_a = false;
  friend bool operator==(const blas_product&, const blas_product&) = default;
};

/// The algorithm that cuBLASLt has chosen for products of a shape, as opaque bits.
struct blas_algorithm {
  std::uint64_t bits[8] = {};
};

/// One product. The matrices, and the workspace that it uses while it runs, are in device memory.
struct blas_command {
  blas_product product;
  blas_algorithm by;
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

/// The functions of the CUDA runtime and of cuBLASLt that this folder uses. Tests replace all of them by an
/// emulation. Only `wait` and the functions that release memory wait for the device. The device does the work
/// of one stream in order. The work of different streams has no order. Any thread may call the functions at
/// any time, except those for graphs.
class runtime_api {
 public:
  virtual ~runtime_api() = default;

  /// Fails if there is no driver or no device.
  virtual status num_devices(int& out) = 0;
  /// Sets everything except `kernel_target`.
  virtual status inspect(int device, device_facts& out) = 0;
  /// Sets `out` to `device_facts::kernel_target` of the current device. Fails if the program has no kernels
  /// for this device.
  virtual status find_kernel_target(int& out) = 0;
  /// Selects the device for the other calls of the calling thread.
  virtual status use(int device) = 0;

  /// Free bytes of the device's memory (memory used by other programs is not free).
  virtual status count_free(std::size_t& out) = 0;
  virtual status allocate(void*& out, std::size_t num_bytes) = 0;
  /// Waits until the device is idle.
  virtual status release(void* memory) = 0;
  /// Host memory that the device can copy from and to without the host.
  virtual status allocate_pinned(void*& out, std::size_t num_bytes) = 0;
  /// Like `release`.
  virtual status release_pinned(void* memory) = 0;

  /// `urgency`: 0, or larger for streams with higher priority.
  virtual status make_stream(raw_stream& out, int urgency) = 0;
  virtual status end_stream(raw_stream stream) = 0;
  /// `is_timed` allows `elapsed`.
  virtual status make_event(raw_event& out, bool is_timed) = 0;
  virtual status end_event(raw_event event) = 0;
  virtual status record(raw_event event, raw_stream stream) = 0;
  /// Puts the calling thread to sleep until the device has reached the event's last record; returns at once
  /// if there was none. Returns the failure of work before the record, if there was one.
  virtual status wait(raw_event event) = 0;
  /// Sets `out` to whether the device has reached the event's last record. Does not block; fails like `wait`.
  virtual status has_come_to(bool& out, raw_event event) = 0;
  /// Seconds by the device's clock between the last records of two timed events, both of which the device
  /// must have reached.
  virtual status elapsed(double& seconds, raw_event from, raw_event to) = 0;
  /// Later work on `stream` waits until the device has reached the event's last record. The event may be
  /// destroyed before that.
  virtual status wait_on_device(raw_stream stream, raw_event event) = 0;

  /// `from` is read when the copy happens if it is pinned, otherwise at the call.
  virtual status copy_in(void* to, const void* from, std::size_t num_bytes, raw_stream stream) = 0;
  /// `to` must be pinned memory.
  virtual status copy_out(void* to, const void* from, std::size_t num_bytes, raw_stream stream) = 0;
  /// Both addresses are in the device's memory.
  virtual status copy_within(void* to, const void* from, std::size_t num_bytes, raw_stream stream) = 0;
  virtual status fill(void* to, std::uint8_t value, std::size_t num_bytes, raw_stream stream) = 0;
  virtual status launch(const launch_command& launch, raw_stream stream) = 0;

  /// Sets `num_multiprocessors`, and sets `of_multiprocessor` to the number of blocks of `kernel` that one
  /// multiprocessor can run at the same time. A block has `threads` threads and `shared_bytes` bytes of
  /// shared memory. The product of the two numbers is the largest number of blocks for `launch_together`; it
  /// is 0 if the device does not support such launches. After this call `kernel` may use `shared_bytes`.
  virtual status count_together(std::uint32_t& of_multiprocessor, std::uint32_t& num_multiprocessors,
                                kernel_id kernel, std::uint32_t threads, std::uint32_t shared_bytes) = 0;
  /// A launch that starts after everything before it. All blocks run at the same time and may wait for each
  /// other (sync_grid). `params` points to the kernel's struct, which is copied at the call.
  virtual status launch_together(kernel_id kernel, const launch_shape& shape, const void* params,
                                 std::size_t params_bytes, raw_stream stream) = 0;

  // A graph and its executables are used by one thread at a time.

  virtual status make_graph(raw_graph& out) = 0;
  /// Executables made from the graph can still be launched, but no longer updated.
  virtual status end_graph(raw_graph graph) = 0;
  /// Adds a command after node `after`, or at the beginning if that is null. A launch that starts early must
  /// follow a launch.
  virtual status add_copy(raw_node& out, raw_graph graph, raw_node after, const copy_command& copy) = 0;
  virtual status add_launch(raw_node& out, raw_graph graph, raw_node after, const launch_command& launch) = 0;
  /// Uses the graph's current addresses, sizes and parameters.
  virtual status make_executable(raw_executable& out, raw_graph graph) = 0;
  /// May be called while the executable runs: it is freed afterwards.
  virtual status end_executable(raw_executable graph) = 0;
  /// Changes the copy of `node`, a node of the graph from which the executable was made, for later launches;
  /// launches already requested do not change. A copy keeps its direction.
  virtual status update_copy(raw_executable graph, raw_node node, const copy_command& copy) = 0;
  /// Enqueues the executable. Its nodes run in the order that their predecessors require, and later work on
  /// `stream` runs after all of them.
  virtual status launch_graph(raw_executable graph, raw_stream stream) = 0;

  // cuBLASLt, only for devices in fast mode. `make_blas` fails if this machine does not have it.

  virtual status make_blas(raw_blas& out) = 0;
  virtual status end_blas(raw_blas blas) = 0;
  /// cuBLASLt's choice of an algorithm for products of this shape. It needs at most `workspace_bytes`.
  virtual status choose_algorithm(blas_algorithm& out, raw_blas blas, const blas_product& product,
                                  std::size_t workspace_bytes) = 0;
  virtual status multiply(raw_blas blas, const blas_command& command, raw_stream stream) = 0;

  /// A text such as "out of memory (cudaErrorMemoryAllocation, 2)".
  virtual std::string describe(status failure) const = 0;
  virtual failure_kind kind_of(status failure) const noexcept = 0;
};

} // namespace paceline::gpu
