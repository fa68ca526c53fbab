#include "runtime/cpu/kernels/matmul.hpp"

#include "runtime/cpu/kernels/matmul_scalar.hpp"

namespace paceline::cpu {

const matmul_kernels& matmul_kernels_of(kernel_level) { return scalar_matmul_kernels(); }

} // namespace paceline::cpu
