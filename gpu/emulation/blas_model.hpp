#pragma once

#include "gpu/runtime_api.hpp"

namespace paceline::gpu::emulation {

/// True if cuBLASLt would accept a product of this shape as fast mode requests it: the columns of each matrix
/// have at least 16 bytes and begin a multiple of 16 bytes apart.
bool is_sound(const blas_product& product) noexcept;

/// Stands for the algorithm that the library would choose; different for each shape.
blas_algorithm algorithm_of(const blas_product& product) noexcept;

/// True if a command's memory satisfies the rules of `multiply` and its algorithm belongs to its shape.
bool is_sound(const blas_command& command) noexcept;

/// Computes the product in float32, each sum in several partial sums, from the last term to the first. The
/// number of partial sums depends on the number of columns, like in a library that chooses the order by the
/// shape. Overwrites the workspace.
void multiply(const blas_command& command);

} // namespace paceline::gpu::emulation
