#pragma once

// The dialect that kernels are written in. nvcc makes code for a GPU of it, in namespace on_gpu; any other
// compiler host code, in namespace emulated, that runs on the emulation of blocks, warps and barriers. One
// program may hold both.
//
// Rules of the dialect, beyond CUDA's: a kernel takes one struct of plain values; it rounds where its op's
// contract rounds and nowhere else (-fmad=false, fused products are written std::fma); no thread returns
// before a barrier that others of its warp or block wait at. Of the host's constexpr functions it calls those
// that do arithmetic on their arguments and nothing else: nvcc takes what it cannot call, a string's length
// for instance, for unreachable and leaves out whatever leads there (tests/gpu/device_code_test.py looks for
// such holes).

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define PACELINE_KERNEL_SPACE on_gpu
#define PACELINE_KERNEL __global__ void
/// Always a part of its kernel: what is called would take its arrays to memory.
#define PACELINE_DEVICE __device__ __forceinline__
/// Before a loop over an array that is to lie in registers: no index is left that is known at run time only.
#define PACELINE_UNROLL _Pragma("unroll")
#else
#include "gpu/emulation/thread_block.hpp"
#define PACELINE_KERNEL_SPACE emulated
#define PACELINE_KERNEL inline void
#define PACELINE_DEVICE inline
#define PACELINE_UNROLL
#endif

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

inline constexpr std::uint32_t warp_size = 32;

#ifdef __CUDACC__

PACELINE_DEVICE std::uint32_t thread_index() { return threadIdx.x; }
PACELINE_DEVICE std::uint32_t num_threads() { return blockDim.x; }
PACELINE_DEVICE std::uint32_t block_x() { return blockIdx.x; }
PACELINE_DEVICE std::uint32_t block_y() { return blockIdx.y; }

/// Waits until all threads of the block are here; what they wrote before is then seen by all of them.
PACELINE_DEVICE void sync_block() { __syncthreads(); }
/// The same for the threads of a warp.
PACELINE_DEVICE void sync_warp() { __syncwarp(); }
/// The value of the lane whose number differs in the bits of `mask`; all lanes of the warp call it.
PACELINE_DEVICE float shuffle_xor(float value, std::uint32_t mask) {
  return __shfl_xor_sync(0xffffffffU, value, static_cast<int>(mask));
}

/// The block's shared memory, as large as its launch says.
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
  return emulation::exchange_in_warp(value, thread_index() % warp_size ^ mask);
}
template <class T>
T* shared_memory() {
  return static_cast<T*>(emulation::this_thread().shared);
}

#endif

PACELINE_DEVICE std::uint32_t lane_index() { return thread_index() % warp_size; }
PACELINE_DEVICE std::uint32_t warp_index() { return thread_index() / warp_size; }

/// Which block of a kernel's grid a block of threads does the work of: its own, or one after the other where
/// one kernel does the work of many (gpu/kernels/draft_chain.cuh). Functions that do a block's work are
/// `do_block`, by the kernel's params.
struct grid_place {
  std::uint32_t x = 0;
  std::uint32_t y = 0;

  /// Number of the thread among those of the blocks of one y.
  PACELINE_DEVICE std::uint32_t index_in_row() const { return x * num_threads() + thread_index(); }
};
PACELINE_DEVICE grid_place own_place() { return {block_x(), block_y()}; }

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
