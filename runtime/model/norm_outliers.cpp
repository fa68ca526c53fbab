#include "runtime/model/norm_outliers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace paceline::model {

namespace {

constexpr std::size_t block_values = 32; ///< values that share a scale: device::matmul_args

} // namespace

bool singles_out_values(std::span<const float> norm_weights) {
  std::size_t num_blocks = 0;
  std::size_t num_singling_out = 0;
  for (std::size_t begin = 0; begin + block_values <= norm_weights.size(); begin += block_values) {
    std::array<float, block_values> magnitudes;
    std::ranges::transform(norm_weights.subspan(begin, magnitudes.size()), magnitudes.begin(),
                           [](float weight) { return std::isfinite(weight) ? std::fabs(weight) : 0.0F; });
    const auto middle = magnitudes.begin() + magnitudes.size() / 2;
    std::nth_element(magnitudes.begin(), middle, magnitudes.end());
    const float largest = *std::max_element(middle, magnitudes.end());
    ++num_blocks;
    num_singling_out += largest >= outlier_ratio * *middle && largest > 0 ? 1U : 0U;
  }
  return num_singling_out > 0 && 2 * num_singling_out >= num_blocks;
}

} // namespace paceline::model
