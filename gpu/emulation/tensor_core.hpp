#pragma once

#include "gpu/emulation/thread_block.hpp"

#include <cstdint>

namespace paceline::gpu::emulation {

/// Model of mma.m16n8k16 with float16 operands and float32 sums; gpu/kernels/intrinsics.cuh says which
/// elements a lane has. All lanes of a warp call it. A sum's 17 terms, whose products are exact, are added in
/// double precision and rounded to float32 once: a GPU comes within 17 * 2^-23 of the largest term of that.
void multiply_add_tile(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1);

} // namespace paceline::gpu::emulation
