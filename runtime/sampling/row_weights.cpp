#include "runtime/sampling/row_weights.hpp"

#include "runtime/base/portable_math.hpp"
#include "runtime/sampling/vector_clones.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace paceline::sampling {

namespace {

constexpr std::size_t lanes = 16; ///< of the accumulators: a multiple of every vector width

} // namespace

PACELINE_VECTOR_CLONES
void apply_scale(const row_scale& scale, std::span<float> row) noexcept {
  const row_scale local = scale;
  float* const values = row.data();
  const std::size_t size = row.size();
  for (std::size_t i = 0; i < size; ++i) values[i] = local(values[i]);
}

PACELINE_VECTOR_CLONES
void scaled(std::span<const float> row, const row_scale& scale, std::span<float> out) noexcept {
  const row_scale local = scale;
  const float* const values = row.data();
  float* const scores = out.data();
  const std::size_t size = row.size();
  for (std::size_t i = 0; i < size; ++i) scores[i] = local(values[i]);
}

PACELINE_VECTOR_CLONES
double sum_of_exp(std::span<const float> row, const row_scale& scale) noexcept {
  const row_scale local = scale;
  std::array<double, lanes> sums{};
  std::array<float, 8 * lanes> block; // compilers vectorise two plain loops, but not one nest
  for (std::size_t begin = 0; begin < row.size(); begin += block.size()) {
    const float* const values = row.data() + begin;
    const std::size_t count = std::min(block.size(), row.size() - begin);
    for (std::size_t i = 0; i < count; ++i) block[i] = portable_exp(local(values[i]));
    std::fill(block.begin() + static_cast<std::ptrdiff_t>(count), block.end(), 0.0F);
    for (std::size_t i = 0; i < block.size(); i += lanes)
      for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += static_cast<double>(block[i + lane]);
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

PACELINE_VECTOR_CLONES
void exponentials(std::span<float> scores) noexcept {
  float* const values = scores.data();
  const std::size_t size = scores.size();
  for (std::size_t i = 0; i < size; ++i) values[i] = portable_exp(values[i]);
}

} // namespace paceline::sampling
