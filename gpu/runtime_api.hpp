#pragma once

#include "gpu/kernels/params.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace paceline::gpu {

/// Outcome of a call: 0 for success, else a number that `runtime_api::describe` knows.
using status = int;

/// What a failed call means for its caller.
enum class failure_kind : std::uint8_t {
  out_of_memory, ///< of the device's or of pinned memory; all else goes on
  device_lost,   ///< the context is beyond use: every later call fails as well
  other,         ///< this call was wrong; the device goes on
};

using raw_stream = void*;
using raw_event = void*;
using raw_graph = void*;
using raw_node = void*;       ///< of a graph, and gone with it
using raw_executable = void*; ///< a graph that can be launched
using raw_blas = void*;       ///< a handle of cuBLASLt's

struct device_facts {
  std::string name;
  int compute_capability = 0; ///< 90 for 9.0
  std::size_t memory_bytes = 0;
  int kernel_target = 0; ///< the compute capability that the kernels it runs were compiled for; less, perhaps

  /// Whether launches can: kernels for older GPUs do not wait for the one before (wait_for_previous).
  bool can_start_early() const noexcept { return compute_capability >= 90 && kernel_target >= 90; }
};

struct launch_shape {
  std::uint32_t blocks_x = 1;
  std::uint32_t blocks_y = 1;
  std::uint32_t threads = 1; ///< of a block
  std::uint32_t shared_bytes = 0;
  friend bool operator==(const launch_shape&, const launch_shape&) = default;
};

/// A copy of a graph's, of at least one byte. Host memory is pinned.
struct copy_command {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t num_bytes = 0;
  bool to_host = false; ///< else to the device
};

/// When a launch may start.
enum class launch_start : bool {
  at_end, ///< when all that it comes after has ended
  /// When all blocks of the kernel right before it, on the stream or in the graph, have let it
  /// (let_next_begin) or ended; the kernel itself waits for that one's end (wait_for_previous). Both are
  /// kernels that `takes_turns`, on a device of compute capability 9.0 or later.
  early,
};

/// A launch. `params` is the kernel's struct, copied at the call.
struct launch_command {
  kernel_id kernel{};
  launch_shape shape;
  const void* params = nullptr;
  std::size_t params_bytes = 0;
  launch_start start = launch_start::at_end;
};

enum class blas_type : std::uint8_t { f16, f32 };

/// A matrix as cuBLASLt has it: columns lie one behind the other, `stride` values from one to the next.
struct blas_matrix {
  blas_type type = blas_type::f32;
  std::uint64_t num_rows = 0;
  std::uint64_t num_cols = 0;
  std::uint64_t stride = 0;
  friend bool operator==(const blas_matrix&, const blas_matrix&) = default;
};

/// d = op(a) * b with op(a) = a or its transpose, in sums of float32 whose order is cuBLASLt's. Each matrix
/// begins at a multiple of 256 bytes.
struct blas_product {
  blas_matrix a;
  blas_matrix b;
  blas_matrix d;
  bool transpose_a = false;
  friend bool operator==(const blas_product&, const blas_product&) = default;
};

/// cuBLASLt's own way to make products of a shape: bits that mean something to it alone.
struct blas_algorithm {
  std::uint64_t bits[8] = {};
};

/// One product: matrices on the device, and memory there that belongs to it while it is under way.
struct blas_command {
  blas_product product;
  blas_algorithm by;
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

/// The part of the CUDA runtime, and of cuBLASLt, that this room uses: all that tests replace. Calls other
/// than `wait` return before the device has done what they ask for; on one stream the device does it in
/// order, on several in any order. Thread-safe as the CUDA runtime is.
class runtime_api {
 public:
  virtual ~runtime_api() = default;

  /// Fails where there is no driver or no device.
  virtual status num_devices(int& out) = 0;
  /// All but `kernel_target`.
  virtual status inspect(int device, device_facts& out) = 0;
  /// Of the device in use. Fails where the program has no kernels for it.
  virtual status find_kernel_target(int& out) = 0;
  /// The device that the calling thread's other calls are for.
  virtual status use(int device) = 0;

  /// Bytes of the device's memory that nobody has, other programs included.
  virtual status count_free(std::size_t& out) = 0;
  virtual status allocate(void*& out, std::size_t num_bytes) = 0;
  /// Waits until the device is idle.
  virtual status release(void* memory) = 0;
  /// Host memory that the device copies from and to without the host's help.
  virtual status allocate_pinned(void*& out, std::size_t num_bytes) = 0;
  /// As `release`.
  virtual status release_pinned(void* memory) = 0;

  /// `urgency`: 0, or more for work that goes first.
  virtual status make_stream(raw_stream& out, int urgency) = 0;
  virtual status end_stream(raw_stream stream) = 0;
  /// `is_timed`: `elapsed` may be asked of it.
  virtual status make_event(raw_event& out, bool is_timed) = 0;
  virtual status end_event(raw_event event) = 0;
  virtual status record(raw_event event, raw_stream stream) = 0;
  /// Blocks the calling thread, asleep, until the device has come to the event's last record; at once if
  /// there was none. Tells the failure of whatever was before it.
  virtual status wait(raw_event event) = 0;
  /// Whether the device has come to the event's last record, without blocking; fails as `wait` does.
  virtual status has_come_to(bool& out, raw_event event) = 0;
  /// Seconds by the device's clock between the last records of two timed events, both of which the device has
  /// come to.
  virtual status elapsed(double& seconds, raw_event from, raw_event to) = 0;
  /// What comes next on `stream` waits until the device has come to the event's last record. The event may
  /// end before that.
  virtual status wait_on_device(raw_stream stream, raw_event event) = 0;

  /// `from` is read when the copy happens if it is pinned, else at the call.
  virtual status copy_in(void* to, const void* from, std::size_t num_bytes, raw_stream stream) = 0;
  /// `to` is pinned memory.
  virtual status copy_out(void* to, const void* from, std::size_t num_bytes, raw_stream stream) = 0;
  virtual status fill(void* to, std::uint8_t value, std::size_t num_bytes, raw_stream stream) = 0;
  virtual status launch(const launch_command& launch, raw_stream stream) = 0;

  /// Blocks of such a launch that a multiprocessor holds at a time, and multiprocessors: as many as
  /// `launch_together` may have. Either is 0 where there is no such launch. Lets `kernel` have so much shared
  /// memory from then on.
  virtual status count_together(std::uint32_t& of_multiprocessor, std::uint32_t& num_multiprocessors,
                                kernel_id kernel, std::uint32_t threads, std::uint32_t shared_bytes) = 0;
  /// A launch that starts at the end of all before it; all blocks are under way at the same time, and may
  /// wait for each other (sync_grid). `params` is the kernel's struct, copied at the call.
  virtual status launch_together(kernel_id kernel, const launch_shape& shape, const void* params,
                                 std::size_t params_bytes, raw_stream stream) = 0;

  // A graph and its executables are used by one thread at a time.

  virtual status make_graph(raw_graph& out) = 0;
  /// Executables made of it can still be launched, and no longer updated.
  virtual status end_graph(raw_graph graph) = 0;
  /// Adds what is to be done after node `after`, or after nothing where that is null. A launch that starts
  /// early comes after a launch.
  virtual status add_copy(raw_node& out, raw_graph graph, raw_node after, const copy_command& copy) = 0;
  virtual status add_launch(raw_node& out, raw_graph graph, raw_node after, const launch_command& launch) = 0;
  /// Takes the graph as it is: addresses, sizes and params.
  virtual status make_executable(raw_executable& out, raw_graph graph) = 0;
  /// It may be under way: it is freed when that is done.
  virtual status end_executable(raw_executable graph) = 0;
  /// Changes what `node`, of the graph that the executable was made of, does in launches from now on; not in
  /// those already asked for. A copy keeps its direction, and a launch when it may start.
  virtual status update_copy(raw_executable graph, raw_node node, const copy_command& copy) = 0;
  virtual status update_launch(raw_executable graph, raw_node node, const launch_command& launch) = 0;
  /// Does what the executable holds, in the order that the nodes ask for; memory is read and written when a
  /// node's turn comes. What is next on `stream` comes after all of it.
  virtual status launch_graph(raw_executable graph, raw_stream stream) = 0;

  // cuBLASLt, for devices in fast mode alone. Fails where this machine has none.

  virtual status make_blas(raw_blas& out) = 0;
  virtual status end_blas(raw_blas blas) = 0;
  /// The library's choice for products of the shape that need no more than `workspace_bytes`.
  virtual status choose_algorithm(blas_algorithm& out, raw_blas blas, const blas_product& product,
                                  std::size_t workspace_bytes) = 0;
  virtual status multiply(raw_blas blas, const blas_command& command, raw_stream stream) = 0;

  /// "out of memory (cudaErrorMemoryAllocation, 2)".
  virtual std::string describe(status failure) const = 0;
  virtual failure_kind kind_of(status failure) const noexcept = 0;
};

} // namespace paceline::gpu
