#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>

namespace paceline::gpu::emulation {

/// A kernel violates the rules of barriers: threads of one block wait for each other at different places, or
/// for a thread that has returned, or a kernel that starts early does not wait for its predecessor.
class barrier_fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A copy that violates the rules of begin_copy.
class copy_fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The shape of a launch.
struct grid {
  std::uint32_t blocks_x = 1;
  std::uint32_t blocks_y = 1;
  std::uint32_t threads = 1;    ///< in a block; a multiple of 32
  std::size_t shared_bytes = 0; ///< of a block
};

/// Calls `thread` once for every thread of the grid, on the calling thread, with barriers and shared memory
/// as on a GPU. Each emulated thread has its own stack (a fibre) and runs until it waits or returns; then
/// another one runs. Blocks run one after the other. `seed` decides the order of threads and of blocks. If a
/// barrier is missing, then with most seeds a thread sees data that another thread has not written yet or has
/// already overwritten. At the start of a block all bytes of shared memory are 0xff (NaN in floats).
///
/// Throws barrier_fault and the exceptions of `thread`.
void run_grid(const grid& shape, std::uint64_t seed, const std::function<void()>& thread);

/// A grid that may start before the previous kernel has ended. Used by one thread at a time.
class grid_run {
 public:
  /// Like run_grid.
  grid_run(const grid& shape, std::uint64_t seed, std::function<void()> thread);
  ~grid_run();
  grid_run(const grid_run&) = delete;
  grid_run& operator=(const grid_run&) = delete;

  /// Runs `num_blocks` of the blocks (at most all) up to the point where their threads wait for the previous
  /// kernel. A copy to shared memory that begins before that point reads its source at once. After this call
  /// every thread of the grid, in all blocks, must wait for the previous kernel before it returns.
  void start_early(std::uint32_t num_blocks);
  /// The previous kernel has ended: runs the rest. Throws like run_grid.
  void finish();

 private:
  struct impl;
  const std::unique_ptr<impl> impl_;
};

/// Like run_grid, for a grid whose blocks all run at the same time and may wait for each other. Each block
/// runs until all of its threads wait for the grid; then the next one runs, in an order that `seed` decides.
/// `blocks_y` must be 1.
void run_together(const grid& shape, std::uint64_t seed, const std::function<void()>& thread);

/// The calling emulated thread.
struct thread_place {
  std::uint32_t index = 0; ///< in its block
  std::uint32_t num_threads = 0;
  std::uint32_t block_x = 0;
  std::uint32_t block_y = 0;
  void* shared = nullptr; ///< aligned to 16 bytes
};

// Functions for kernels. Called only inside run_grid, grid_run and run_together.

const thread_place& this_thread() noexcept;

/// Returns once all threads of the block have called it.
void wait_for_block();

/// Returns once all threads of the grid have called it. Only inside run_together.
void wait_for_grid();

/// Returns once the previous kernel has ended.
void wait_for_previous();

/// Returns once all threads of the warp have called it or `show_to_warp`.
void wait_for_warp();

/// Returns the values passed by the lanes of the warp, valid until the thread's next wait. Includes a
/// wait_for_warp.
const float* show_to_warp(float value);

/// Bytes of the slot in which each lane of a warp offers data to the others.
inline constexpr std::size_t shared_slot_bytes = 80;

/// Copies the `num_bytes` <= shared_slot_bytes at `value` to the lane's slot, and returns the slots of all
/// lanes of the warp, valid until the thread's next wait. Includes a wait_for_warp.
const std::byte* lay_out_in_warp(const void* value, std::size_t num_bytes);

/// Begins a copy of at most 16 bytes to shared memory. The bytes of the destination are 0xff until
/// `wait_for_copies` has waited for the copy. The copy is made in that call, the latest time at which a GPU
/// may make it, with the content that `from` has then. (Exception: `grid_run::start_early`.) Both addresses
/// must be multiples of `num_bytes`, and all of `to` must be in the block's shared memory. If the thread does
/// not wait for a copy, the copy is dropped.
///
/// Throws copy_fault.
void begin_copy(std::byte* to, const std::byte* from, std::size_t num_bytes);
/// Makes a group of the copies that the thread has begun since its last call of this function.
void end_copy_group();
/// Waits for the copies of all groups of the thread except the last `rest` groups.
void wait_for_copies(std::size_t rest);

} // namespace paceline::gpu::emulation
