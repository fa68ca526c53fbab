#include "tests/support/statistics.hpp"

#include <cmath>
#include <cstdlib>
#include <limits>

namespace paceline::test {

double chi_square_limit(std::size_t degrees_of_freedom) {
  constexpr double normal_quantile = 4.753424; // at 1 - 1e-6
  const auto k = static_cast<double>(degrees_of_freedom);
  const double spread = 2.0 / (9.0 * k);
  return k * std::pow(1.0 - spread + normal_quantile * std::sqrt(spread), 3.0);
}

goodness_of_fit compare(std::span<const std::uint64_t> counts, std::span<const double> probs) {
  goodness_of_fit fit;
  for (const std::uint64_t count : counts) fit.num_samples += count;
  const auto n = static_cast<double>(fit.num_samples);
  double pooled_expected = 0;
  double pooled_count = 0;
  double noise = 0;
  std::size_t cells = 0;
  const auto add_cell = [&](double count, double expected) {
    fit.chi_square += (count - expected) * (count - expected) / expected;
    ++cells;
  };
  for (std::size_t i = 0; i < probs.size(); ++i) {
    const double expected = probs[i] * n;
    const auto count = static_cast<double>(counts[i]);
    fit.total_variation += 0.5 * std::abs(count / n - probs[i]);
    noise += std::sqrt(probs[i] * (1.0 - probs[i]));
    if (probs[i] == 0.0 && count > 0) fit.chi_square = std::numeric_limits<double>::infinity();
    if (expected >= 10) {
      add_cell(count, expected);
    } else {
      pooled_expected += expected;
      pooled_count += count;
    }
  }
  if (pooled_expected > 0) add_cell(pooled_count, pooled_expected);
  fit.chi_square_limit = cells > 1 ? chi_square_limit(cells - 1) : 1e-9;
  fit.variation_limit = 3.0 * 0.40 * noise / std::sqrt(n);
  return fit;
}

std::uint64_t num_law_samples(std::uint64_t usual) {
  const char* const wanted = std::getenv("PACELINE_LAW_SAMPLES");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : usual;
}

} // namespace paceline::test
