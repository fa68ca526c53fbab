#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/matrix.hpp"

#include <cstddef>
#include <span>

namespace paceline::device {

/// out[r] = row tokens[r] of `table`, dequantised, times `scale`. The value of a weight is code *
/// scale_of_its_group + min with one rounding to float32 (none where it is exact); the product with `scale`
/// rounds once more.
struct embed_args {
  const matrix* table = nullptr;    ///< [vocab_size][width]
  std::span<const token_id> tokens; ///< host memory; each within 0..vocab_size-1, or the program fails
  float* out = nullptr;             ///< [tokens.size()][width], rows `out_stride` values apart
  std::size_t out_stride = 0;
  float scale = 1;
};

} // namespace paceline::device
