#pragma once

#include "gpu/runtime_api.hpp"

namespace paceline::gpu::emulation {

/// True if cuBLASLt would accept products of this shape as fast mode requests them: columns at least 16 bytes
/// long and a multiple of 16 bytes apart.
bool is_sound(const blas_product& product) noexcept;

/// A stand-in for the library's choice for a shape: different for each shape.
blas_algorithm algorithm_of(const blas_product& product) noexcept;

/// True if a command's memory satisfies the rules of `multiply` and its algorithm belongs to its shape.
bool is_sound(const blas_command& command) noexcept;

/// Computes the product in float32 with several chains of sums, from the last term to the first. Their number
/// depends on the number of columns, like a library that chooses by the shape. Overwrites the workspace.
void multiply(const blas_command& command);

} // namespace paceline::gpu::emulation
