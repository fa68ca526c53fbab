#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace paceline::test {

/// The scales in a checkpoint with FP8 weights: of blocks of 128 x 128, of rows (as BF16), or one for each
/// matrix.
enum class fp8_scales : std::uint8_t { none, blocks, rows, one };

/// Value of an E4M3 code, by the definition of the format; NaN for the two NaN codes.
double e4m3_value(std::uint8_t code);

/// A matrix in FP8 as in checkpoints.
struct fp8_matrix {
  std::vector<std::byte> codes; ///< [num_rows][num_cols]
  std::vector<float> scales;    ///< chosen so that the largest value of each scale gets the largest code
  std::vector<std::uint64_t> scale_shape; ///< empty for one scalar
  std::vector<float> values;              ///< the resulting values: code * scale, rounded to float
};

/// Rounds `values` [num_rows][num_cols] to the nearest codes.
fp8_matrix quantise_fp8(std::span<const float> values, std::uint64_t num_rows, std::uint64_t num_cols,
                        fp8_scales scales);

/// The object "quantization_config" of config.json, in the usual form of such checkpoints. Not for `none`.
std::string quantization_config(fp8_scales scales);

} // namespace paceline::test
