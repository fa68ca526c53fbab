#include "runtime/cpu/kernels/matmul.hpp"

namespace paceline::cpu {

const matmul_kernels& matmul_kernels_of(kernel_level level) {
  switch (level) {
#if defined(__x86_64__)
  case kernel_level::avx512_vnni:
    return avx512_vnni_matmul_kernels();
  case kernel_level::avx_vnni:
    return avx_vnni_matmul_kernels();
  case kernel_level::avx2:
    return avx2_matmul_kernels();
#else
  case kernel_level::avx512_vnni:
  case kernel_level::avx_vnni:
  case kernel_level::avx2:
#endif
  case kernel_level::scalar:
    break;
  }
  return scalar_matmul_kernels();
}

} // namespace paceline::cpu
