#pragma once

#include <cstdint>
#include <span>

/// Whether counts follow a law: the two figures of the acceptance table (E2).
namespace paceline::test {

struct goodness_of_fit {
  double chi_square = 0;       ///< Pearson's statistic; infinite if something impossible occurred
  double chi_square_limit = 0; ///< its quantile at 1 - 1e-6
  double total_variation = 0;
  double variation_limit =
      0; ///< three times what sampling noise alone gives: 3 * 0.40 * sum sqrt(p (1 - p)) / sqrt(N)
  std::uint64_t num_samples = 0;

  bool accepted() const noexcept {
    return chi_square <= chi_square_limit && total_variation <= variation_limit;
  }
};

/// Compares counts with probabilities (sum 1). Cells expected less than 10 times are pooled for chi-square.
goodness_of_fit compare(std::span<const std::uint64_t> counts, std::span<const double> probs);

/// Samples that a test of a law draws: `usual`, or what the environment's PACELINE_LAW_SAMPLES says.
std::uint64_t num_law_samples(std::uint64_t usual);

/// Quantile at 1 - 1e-6 of the chi-square distribution (Wilson and Hilferty's approximation).
double chi_square_limit(std::size_t degrees_of_freedom);

} // namespace paceline::test
