#pragma once

// The dialect in which kernels are written. nvcc compiles it for a GPU, in namespace on_gpu; any other
// compiler compiles it for the host, in namespace emulated, to run on the emulation of blocks, warps and
// barriers. One program may contain both.
//
// Rules of the dialect, in addition to CUDA's. A kernel takes one struct of plain values. It rounds where its
// op's contract rounds and nowhere else (-fmad=false; fused products are written std::fma). No thread returns
// before a barrier at which others of its warp or block wait. A kernel may call a constexpr function of the
// host only if the function does nothing but arithmetic on its arguments. If nvcc cannot compile a call (for
// example, of a string's length), it treats the call as unreachable and removes the code that leads to it;
// tests/gpu/device_code_test.py looks for missing code.

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define PACELINE_KERNEL_SPACE on_gpu
#define PACELINE_KERNEL __global__ void
/// A device function is always inlined, because a call would force its arrays into memory.
#define PACELINE_DEVICE __device__ __forceinline__
/// Before a loop over an array that must be in registers: unrolling makes all indices constant.
#define PACELINE_UNROLL _Pragma("unroll")
/// Before a loop with a long body that need not be fast. Without unrolling, fewer instructions are read from
/// memory.
#define PACELINE_ROLL _Pragma("unroll 1")
#else
#include "gpu/emulation/thread_block.hpp"
#define PACELINE_KERNEL_SPACE emulated
#define PACELINE_KERNEL inline void
#define PACELINE_DEVICE inline
#define PACELINE_UNROLL
#define PACELINE_ROLL
#endif

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

inline constexpr std::uint32_t warp_size = 32;

#ifdef __CUDACC__

PACELINE_DEVICE std::uint32_t thread_index() { return threadIdx.x; }
PACELINE_DEVICE std::uint32_t num_threads() { return blockDim.x; }
PACELINE_DEVICE std::uint32_t block_x() { return blockIdx.x; }
PACELINE_DEVICE std::uint32_t block_y() { return blockIdx.y; }

/// Waits until all threads of the block have called it; their earlier writes are then visible to all of them.
PACELINE_DEVICE void sync_block() { __syncthreads(); }
/// The same for the threads of a warp.
PACELINE_DEVICE void sync_warp() { __syncwarp(); }
/// The value of the lane whose number differs from this one's in the bits of `mask`; all lanes of the warp
/// must call it.
PACELINE_DEVICE float shuffle_xor(float value, std::uint32_t mask) {
  return __shfl_xor_sync(0xffffffffU, value, static_cast<int>(mask));
}

/// The block's shared memory, with the size given in the launch.
template <class T>
PACELINE_DEVICE T* shared_memory() {
  extern __shared__ float4 shared_bytes[];
  return reinterpret_cast<T*>(shared_bytes);
}

#else

inline std::uint32_t thread_index() { return emulation::this_thread().index; }
inline std::uint32_t num_threads() { return emulation::this_thread().num_threads; }
inline std::uint32_t block_x() { return emulation::this_thread().block_x; }
inline std::uint32_t block_y() { return emulation::this_thread().block_y; }
inline void sync_block() { emulation::wait_for_block(); }
inline void sync_warp() { emulation::wait_for_warp(); }
inline float shuffle_xor(float value, std::uint32_t mask) {
  return emulation::show_to_warp(value)[thread_index() % warp_size ^ mask];
}
template <class T>
T* shared_memory() {
  return static_cast<T*>(emulation::this_thread().shared);
}

#endif

PACELINE_DEVICE std::uint32_t lane_index() { return thread_index() % warp_size; }
PACELINE_DEVICE std::uint32_t warp_index() { return thread_index() / warp_size; }

/// Which block of a kernel's grid the calling thread block computes: the one at its own place, except in
/// draft_chain (gpu/kernels/draft_chain.cuh), whose blocks do the work of many blocks of other kernels.
/// `do_block` does the work of one block; it is overloaded for the parameters of each kernel.
struct grid_place {
  std::uint32_t x = 0;
  std::uint32_t y = 0;

  /// Number of the thread among the threads of all blocks with the same y.
  PACELINE_DEVICE std::uint32_t index_in_row() const { return x * num_threads() + thread_index(); }
};
PACELINE_DEVICE grid_place own_place() { return {block_x(), block_y()}; }

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
