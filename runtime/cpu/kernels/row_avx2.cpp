// The row ops at the AVX2 level: compiled with -mavx2 -mfma -mf16c.
#include "runtime/cpu/kernels/attention.hpp"
#include "runtime/cpu/kernels/gated_delta.hpp"
#include "runtime/cpu/kernels/row_ops.hpp"
#include "runtime/cpu/kernels/simd_avx2.hpp"

namespace paceline::cpu {

const row_kernels& avx2_row_kernels() noexcept {
  static constexpr row_kernels kernels{rms_norm<simd_avx2>,     rope<simd_avx2>,
                                       glu<simd_avx2>,          kv_write<simd_avx2>,
                                       attention<simd_avx2>,    attention_splits<simd_avx2>,
                                       merge_splits<simd_avx2>, gated_delta<simd_avx2>};
  return kernels;
}

} // namespace paceline::cpu
