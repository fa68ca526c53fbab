#pragma once

#include "gpu/runtime_api.hpp"

namespace paceline::gpu::emulation {

/// Whether cuBLASLt would take products of the shape as fast mode asks for them, with 16 bytes or more from
/// column to column in whole words of 16 bytes.
bool is_sound(const blas_product& product) noexcept;

/// What stands for the library's choice for a shape: no other shape has the same.
blas_algorithm algorithm_of(const blas_product& product) noexcept;

/// Whether a command's memory is as `multiply` wants it, and its algorithm that of its shape.
bool is_sound(const blas_command& command) noexcept;

/// The product, in sums of float32 in several chains from the last term to the first; how many depends on the
/// number of columns, as with a library that chooses by the shape. What the workspace held is gone.
void multiply(const blas_command& command);

} // namespace paceline::gpu::emulation
