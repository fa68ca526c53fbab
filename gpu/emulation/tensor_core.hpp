#pragma once

#include "gpu/emulation/thread_block.hpp"

#include <cstdint>

namespace paceline::gpu::emulation {

/// Model of mma.m16n8k16 with float16 operands and float32 sums; gpu/kernels/intrinsics.cuh says which
/// elements a lane holds. All lanes of a warp call it. Rounding is as on A100, the least precise of the
/// supported GPUs (Fasi, Higham, Mikaitis, Pranesh, Numerical behavior of NVIDIA tensor cores, 2021; MMA-Sim,
/// arXiv 2511.10909). Eight exact products are added to the sum so far, then the other eight. Each of these
/// additions has nine terms. They are truncated 24 bits below the exponent of the largest term, and their sum
/// is truncated to float32. The exponent of a product is the sum of its factors' exponents; the exponent of a
/// float16 below 2^-14 is taken as -14.
void multiply_add_tile(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1);

} // namespace paceline::gpu::emulation
