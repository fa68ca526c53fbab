#pragma once

#include "gpu/runtime_api.hpp"

namespace paceline::gpu::emulation {

/// True if this is a product that fast mode may give to cuBLASLt: a and b are float16 and d is float32, no
/// matrix is empty, their sizes match, and the columns of each matrix begin a multiple of 16 bytes apart.
bool is_sound(const blas_product& product) noexcept;

/// Stands for the algorithm that the library would choose; different for each shape.
blas_algorithm algorithm_of(const blas_product& product) noexcept;

/// True if the product is sound, `by` is `algorithm_of` that product, and the matrices and the workspace
/// begin at multiples of 256 bytes.
bool is_sound(const blas_command& command) noexcept;

/// Computes the product in float32, each sum in several partial sums, from the last term to the first. The
/// number of partial sums depends on the number of columns of d, as in a library that chooses the order by
/// the shape. Overwrites the workspace.
void multiply(const blas_command& command);

} // namespace paceline::gpu::emulation
