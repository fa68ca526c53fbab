#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>

namespace paceline::gpu::emulation {

/// A kernel that breaks the rules of its barriers: threads of one block wait for each other at different
/// places, or for one that has returned.
class barrier_fault : public std::runtime_error {
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

/// Returns once all threads of the warp have called it or `exchange_in_warp`.
void wait_for_warp();

/// Returns what lane `source` of the warp passes. A wait_for_warp.
float exchange_in_warp(float value, std::uint32_t source);

} // namespace paceline::gpu::emulation
