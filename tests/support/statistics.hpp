#pragma once

#include <cstdint>
#include <span>

/// Tests whether counts follow a distribution, with two statistics.
namespace paceline::test {

struct goodness_of_fit {
  double chi_square = 0;       ///< Pearson's statistic; infinite if an impossible outcome occurred
  double chi_square_limit = 0; ///< its quantile at 1 - 1e-6
  double total_variation = 0;
  /// Three times the expectation from sampling noise: 3 * 0.40 * sum sqrt(p (1 - p)) / sqrt(N).
  double variation_limit = 0;
  std::uint64_t num_samples = 0;

  bool accepted() const noexcept {
    return chi_square <= chi_square_limit && total_variation <= variation_limit;
  }
};

/// Compares counts with probabilities (sum 1). Cells with an expectation below 10 are pooled for chi-square.
goodness_of_fit compare(std::span<const std::uint64_t> counts, std::span<const double> probs);

/// Number of samples in a test of a distribution: `usual`, or the value of PACELINE_LAW_SAMPLES in the
/// environment.
std::uint64_t num_law_samples(std::uint64_t usual);

/// Quantile at 1 - 1e-6 of the chi-square distribution (Wilson and Hilferty's approximation).
double chi_square_limit(std::size_t degrees_of_freedom);

} // namespace paceline::test
