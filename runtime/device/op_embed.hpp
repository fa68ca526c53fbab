#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/matrix.hpp"

#include <cstddef>
#include <span>

namespace paceline::device {

/// out[r] = row tokens[r] of `table`, dequantised, times `scale`. A weight is code * scale_of_its_group +
/// min, rounded once to float32 (exact if no rounding is needed); the product with `scale` is rounded once
/// more.
struct embed_args {
  const matrix* table = nullptr;    ///< [vocab_size][width]
  std::span<const token_id> tokens; ///< host memory; each within 0..vocab_size-1, or the program fails
  float* out = nullptr;             ///< [tokens.size()][width], rows `out_stride` values apart
  std::size_t out_stride = 0;
  float scale = 1;
};

} // namespace paceline::device
