#pragma once

#include "runtime/cpu/kernels/matmul.hpp"

namespace paceline::cpu {

/// Plain C++ on the packed layout: for machines without AVX2, and to tell a wrong kernel from a wrong layout.
const matmul_kernels& scalar_matmul_kernels();

/// `quantise_kernel` in plain C++.
void quantise_scalar(const float* x, std::uint32_t num_blocks, activation_block* out, std::size_t stride);

} // namespace paceline::cpu
