#pragma once

#include "gpu/kernels/dialect.cuh"

#ifndef __CUDACC__
#include "gpu/emulation/tensor_core.hpp"
#include "runtime/device/float16.hpp"

#include <cstring>
#endif

// Operations that C++ cannot express: all PTX of the kernels, each with a model for the emulation.
// tests/gpu/kernels/intrinsics_test.cpp compares the two on a GPU.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// 16 bytes, which a thread reads in one access.
struct alignas(16) quad {
  std::uint32_t words[4];
};

#ifdef __CUDACC__

PACELINE_DEVICE quad read_quad(const std::byte* at) {
  const uint4 read = *reinterpret_cast<const uint4*>(at);
  return {{read.x, read.y, read.z, read.w}};
}

/// c += a * b on the tensor core, with a 16 x 16, b 16 x 8 and c 16 x 8; a and b are float16, c is float32.
/// All lanes of the warp must call it. Each lane holds a part of the matrices; with g = lane / 4 and t = lane
/// % 4 (a word has two float16, the first one in the lower half):
///
///   argument    row     columns                    argument    rows                column
///   a[0]        g       2 t, 2 t + 1               b0          2 t, 2 t + 1        g
///   a[1]        g + 8   2 t, 2 t + 1               b1          2 t + 8, 2 t + 9    g
///   a[2]        g       2 t + 8, 2 t + 9
///   a[3]        g + 8   2 t + 8, 2 t + 9
///   c[0], c[1]  g       2 t, 2 t + 1
///   c[2], c[3]  g + 8   2 t, 2 t + 1
///
/// An element of c is a sum of 17 terms: its old value and 16 products. The order in which the hardware adds
/// them is not known, but it is the same for every column. So a column of c depends neither on other columns
/// nor on its place.
PACELINE_DEVICE void multiply_add_tile(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                       std::uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
               "{%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Begins to copy 16 bytes from device memory to the block's shared memory; both addresses must be multiples
/// of 16.
PACELINE_DEVICE void begin_copy(std::byte* shared, const std::byte* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))), "l"(from)
               : "memory");
}
/// An L2 policy for weights: they are the first to leave the second-level cache. The weights of one layer of
/// a large model are larger than this cache; without the policy they would displace activations, KV cells and
/// instructions.
PACELINE_DEVICE std::uint64_t evict_first() {
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
/// `begin_copy` with an L2 policy. GPUs before compute capability 9.0 do not get the policy, because it was
/// not tried on them. ptxas 13.0 encodes some of these copies wrongly for 9.0; see docs/decisions/0661 before
/// calling this from another place.
PACELINE_DEVICE void begin_copy(std::byte* shared, const std::byte* from, std::uint64_t policy) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;"
               :
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))), "l"(from), "l"(policy)
               : "memory");
#else
  begin_copy(shared, from);
#endif
}
/// Makes the copies that the thread began since the last call one group, which may be empty.
PACELINE_DEVICE void end_copy_group() { asm volatile("cp.async.commit_group;" : : : "memory"); }
/// Returns when all of the thread's groups of copies except the last `Rest` are complete. This thread can
/// then read the copied bytes; other threads can read them after the next barrier of the block.
template <std::uint32_t Rest>
PACELINE_DEVICE void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(Rest) : "memory");
}

/// A barrier of all threads of a grid. All blocks of the grid must run at the same time (a cooperative
/// launch). Returns when all threads have called it; what they wrote before the call is then visible to all
/// of them.
///
/// `arrived`, in device memory, counts arrivals of blocks. It is 0 before the kernel and is never reset, so
/// `due` of the n-th barrier is n times the number of blocks.
///
/// In each block only thread 0 counts and waits; `sync_block` before and after holds the block's other
/// threads. So the count releases the writes of the whole block, and the writes of other blocks are visible
/// to the whole block after the wait.
PACELINE_DEVICE void sync_grid(std::uint32_t* arrived, std::uint32_t due) {
  sync_block();
  if (thread_index() == 0) {
    std::uint32_t before;
    asm volatile("atom.add.release.gpu.u32 %0, [%1], 1;" : "=r"(before) : "l"(arrived) : "memory");
    // An acquiring read invalidates the multiprocessor's cache each time, so one fence after the waiting loop
    // is used instead.
    for (std::uint32_t seen = before + 1; seen < due;)
      asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(arrived) : "memory");
    asm volatile("fence.acq_rel.gpu;" : : : "memory");
  }
  sync_block();
}

/// Allows the next kernel to begin once all blocks of this kernel have called this function or ended. Has an
/// effect only if the next kernel was launched to start early. Does not make this kernel's writes visible to
/// the next one.
PACELINE_DEVICE void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
#endif
}
/// Returns when the previous kernel has ended and its writes are visible; immediately if this kernel was not
/// launched to start early. Every thread of every block must call it, also threads without work. Then no
/// kernel ends before its predecessor, and the end of the last kernel is the end of all. Before this call a
/// kernel must not write to device memory, and may read only weights there, because no kernel of a program
/// writes these.
PACELINE_DEVICE void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" : : : "memory");
#endif
}

/// Subtracts the two float16 in word `b` from those in word `a`; each difference is rounded to nearest.
PACELINE_DEVICE std::uint32_t subtract_halves(std::uint32_t a, std::uint32_t b) {
  std::uint32_t out;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
  return out;
}
/// A word with half `Half` of `word` in both of its halves; half 0 is the lower one.
template <std::uint32_t Half>
PACELINE_DEVICE std::uint32_t both_halves(std::uint32_t word) {
  std::uint32_t out;
  asm("prmt.b32 %0, %1, %1, %2;" : "=r"(out) : "r"(word), "n"(Half != 0 ? 0x3232 : 0x1010));
  return out;
}
/// Multiplies the two float16 in word `a` by those in word `b`; each product is rounded to nearest. Subnormal
/// results are kept.
PACELINE_DEVICE std::uint32_t multiply_halves(std::uint32_t a, std::uint32_t b) {
  std::uint32_t out;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
  return out;
}
/// Two values rounded to the nearest float16, with `low` in the lower half of the word.
PACELINE_DEVICE std::uint32_t halves_of(float low, float high) {
  std::uint32_t out;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}
/// Value of the float16 in the lower half of a word.
PACELINE_DEVICE float float_of_half(std::uint32_t bits) {
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(static_cast<std::uint16_t>(bits)));
  return out;
}

#else

inline quad read_quad(const std::byte* at) {
  quad out;
  std::memcpy(&out, __builtin_assume_aligned(at, 16), sizeof out);
  return out;
}
inline void multiply_add_tile(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                              std::uint32_t b1) {
  emulation::multiply_add_tile(c, a, b0, b1);
}
inline void begin_copy(std::byte* shared, const std::byte* from) { emulation::begin_copy(shared, from, 16); }
inline std::uint64_t evict_first() { return 0; }
inline void begin_copy(std::byte* shared, const std::byte* from, std::uint64_t /*policy*/) {
  begin_copy(shared, from);
}
inline void end_copy_group() { emulation::end_copy_group(); }
template <std::uint32_t Rest>
void wait_for_copies() {
  emulation::wait_for_copies(Rest);
}
inline void sync_grid(std::uint32_t* arrived, std::uint32_t due) {
  if (thread_index() == 0 && ++*arrived > due)
    throw emulation::barrier_fault("more blocks have arrived at a barrier of the grid than it waits for");
  emulation::wait_for_grid();
  if (*arrived < due) throw emulation::barrier_fault("a barrier of the grid waits for too many blocks");
}
/// Does nothing: the emulation may run blocks of a kernel that starts early, up to their wait, before the
/// kernels ahead of it have run.
inline void let_next_begin() {}
inline void wait_for_previous() { emulation::wait_for_previous(); }
inline std::uint32_t halves_of(float low, float high) {
  return device::f16_of_float(low) | std::uint32_t{device::f16_of_float(high)} << 16;
}
inline float float_of_half(std::uint32_t bits) {
  return device::float_of_f16(static_cast<std::uint16_t>(bits));
}
inline std::uint32_t subtract_halves(std::uint32_t a, std::uint32_t b) {
  return halves_of(float_of_half(a) - float_of_half(b), float_of_half(a >> 16) - float_of_half(b >> 16));
}
template <std::uint32_t Half>
std::uint32_t both_halves(std::uint32_t word) {
  const std::uint32_t one = Half != 0 ? word >> 16 : word & 0xffffU;
  return one | one << 16;
}
inline std::uint32_t multiply_halves(std::uint32_t a, std::uint32_t b) {
  return halves_of(float_of_half(a) * float_of_half(b), float_of_half(a >> 16) * float_of_half(b >> 16));
}

#endif

/// The beginning of kernels that have nothing to do before they wait for the previous kernel.
PACELINE_DEVICE void begin_in_turn() {
  let_next_begin();
  wait_for_previous();
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
