// The row ops at the AVX-512 level: compiled with -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c, or
// for tests on other machines with PACELINE_EMULATE_AVX512.
#include "runtime/cpu/kernels/attention.hpp"
#include "runtime/cpu/kernels/gated_delta.hpp"
#include "runtime/cpu/kernels/row_ops.hpp"
#include "runtime/cpu/kernels/simd_avx512.hpp"

namespace paceline::cpu {

#ifdef PACELINE_EMULATE_AVX512
#define avx512_row_kernels emulated_avx512_row_kernels // has another name than the real ones in the same test
const row_kernels& emulated_avx512_row_kernels() noexcept;
#endif

const row_kernels& avx512_row_kernels() noexcept {
  static constexpr row_kernels kernels{rms_norm<simd_avx512>,     rope<simd_avx512>,
                                       glu<simd_avx512>,          kv_write<simd_avx512>,
                                       attention<simd_avx512>,    attention_splits<simd_avx512>,
                                       merge_splits<simd_avx512>, gated_delta<simd_avx512>};
  return kernels;
}

} // namespace paceline::cpu
