#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>

namespace paceline::gpu::emulation {

/// A kernel that breaks the rules of its barriers: threads of one block wait for each other at different
/// places, or for one that has returned; or one that starts early and does not wait for its turn.
class barrier_fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A copy that breaks the rules of begin_copy.
class copy_fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct grid {
  std::uint32_t blocks_x = 1;
  std::uint32_t blocks_y = 1;
  std::uint32_t threads = 1; ///< of a block; whole warps
  std::size_t shared_bytes = 0;
};

/// Calls `thread` once for every thread of the grid, on the calling thread: as a GPU would, as far as
/// barriers and shared memory go. Each emulated thread has a stack of its own (a fibre) and runs until it
/// waits or returns; then another goes on. Which one, and which block comes next, `seed` decides: a barrier
/// that is missing lets a thread see what another has not written yet, or has overwritten, for most seeds.
/// Shared memory begins as NaN.
///
/// Throws barrier_fault, and what `thread` throws.
void run_grid(const grid& shape, std::uint64_t seed, const std::function<void()>& thread);

/// A grid that may start before the kernel ahead of it has ended. Used by one thread at a time.
class grid_run {
 public:
  /// As run_grid.
  grid_run(const grid& shape, std::uint64_t seed, std::function<void()> thread);
  ~grid_run();
  grid_run(const grid_run&) = delete;
  grid_run& operator=(const grid_run&) = delete;

  /// Carries `num_blocks` of the blocks, or all, as far as they come without the kernel ahead: to where
  /// threads wait for it. Copies to shared memory that are begun until then read at once. Every thread of the
  /// grid must wait for it now, of the other blocks, too.
  void start_early(std::uint32_t num_blocks);
  /// The kernel ahead has ended: does what is left. Throws as run_grid.
  void finish();

 private:
  struct impl;
  const std::unique_ptr<impl> impl_;
};

/// The same for a grid whose blocks are all under way at the same time and may wait for each other: each goes
/// on, in an order that `seed` decides anew, until all of its threads wait for the grid, which is when the
/// next one does. `blocks_y` is 1.
void run_together(const grid& shape, std::uint64_t seed, const std::function<void()>& thread);

/// The emulated thread that calls.
struct thread_place {
  std::uint32_t index = 0; ///< in its block
  std::uint32_t num_threads = 0;
  std::uint32_t block_x = 0;
  std::uint32_t block_y = 0;
  void* shared = nullptr; ///< aligned to 16 bytes
};

// What kernels call; only inside run_grid.

const thread_place& this_thread() noexcept;

/// Returns once all threads of the block have called it.
void wait_for_block();

/// Returns once all threads of the grid have called it; of one whose blocks run together.
void wait_for_grid();

/// Returns once the kernel ahead has ended.
void wait_for_previous();

/// Returns once all threads of the warp have called it or `exchange_in_warp`.
void wait_for_warp();

/// Returns what lane `source` of the warp passes. A wait_for_warp.
float exchange_in_warp(float value, std::uint32_t source);

/// What the lanes of a warp lay out for one another, a slot a lane.
inline constexpr std::size_t shared_slot_bytes = 64;

/// Lays out the `num_bytes` <= shared_slot_bytes at `value`, and returns the slots of the warp's lanes, good
/// until the thread's next call of this, an exchange or a wait. A wait_for_warp.
const std::byte* lay_out_in_warp(const void* value, std::size_t num_bytes);

/// Begins to copy to shared memory. Until `wait_for_copies` has waited for it, what is there is NaN: the copy
/// is made as late as can be, of what lies at `from` then. Both addresses lie at multiples of `num_bytes`,
/// and all of `to` in the block's shared memory. What has not been waited for when the thread returns is
/// dropped.
///
/// Throws copy_fault.
void begin_copy(std::byte* to, const std::byte* from, std::size_t num_bytes);
/// Makes a group of the copies that the thread began since the last call.
void end_copy_group();
/// Makes the copies of the thread's groups, but for the last `rest`.
void wait_for_copies(std::size_t rest);

} // namespace paceline::gpu::emulation
