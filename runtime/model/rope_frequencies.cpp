#include "runtime/model/rope_frequencies.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace paceline::model {
namespace {

/// Pair whose frequency makes `rotations` rotations within `context` positions (YaRN, equation 17).
double yarn_pair(double rotations, double context, double theta, std::uint32_t head_dim) noexcept {
  return head_dim * std::log(context / (rotations * 2 * std::numbers::pi)) / (2 * std::log(theta));
}

void scale_llama3(std::vector<double>& frequencies, const rope_scaling& scaling) {
  const double low_wavelength = scaling.original_context_length / scaling.low_freq_factor;
  const double high_wavelength = scaling.original_context_length / scaling.high_freq_factor;
  for (double& frequency : frequencies) {
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength < high_wavelength) continue;
    if (wavelength > low_wavelength) {
      frequency /= scaling.factor;
      continue;
    }
    const double kept = (scaling.original_context_length / wavelength - scaling.low_freq_factor) /
                        (scaling.high_freq_factor - scaling.low_freq_factor);
    frequency = (1 - kept) * frequency / scaling.factor + kept * frequency;
  }
}

void scale_yarn(std::vector<double>& frequencies, const rope_config& rope, std::uint32_t head_dim) {
  const auto& scaling = rope.scaling;
  double first = yarn_pair(scaling.beta_fast, scaling.original_context_length, rope.theta, head_dim);
  double last = yarn_pair(scaling.beta_slow, scaling.original_context_length, rope.theta, head_dim);
  if (scaling.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, head_dim - 1.0);
  // transformers divides by the length also if it is negative, which an original context of a few positions
  // makes it, and so do its models.
  const double length = last == first ? 0.001 : last - first;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double interpolated = std::clamp((static_cast<double>(i) - first) / length, 0.0, 1.0);
    frequencies[i] *= interpolated / scaling.factor + (1 - interpolated);
  }
}

} // namespace

double yarn_magnitude(double factor, double weight) noexcept {
  return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
}

std::vector<double> rope_frequencies(const rope_config& rope, std::uint32_t head_dim) {
  std::vector<double> frequencies(head_dim / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = std::pow(rope.theta, -2.0 * static_cast<double>(i) / head_dim);
  switch (rope.scaling.kind) {
  case rope_scaling_kind::none:
    break;
  case rope_scaling_kind::linear:
    for (double& frequency : frequencies) frequency /= rope.scaling.factor;
    break;
  case rope_scaling_kind::llama3:
    scale_llama3(frequencies, rope.scaling);
    break;
  case rope_scaling_kind::yarn:
    scale_yarn(frequencies, rope, head_dim);
    break;
  }
  for (std::size_t i = 0; i < rope.frequency_divisors.size(); ++i)
    frequencies[i] /= rope.frequency_divisors[i];
  return frequencies;
}

} // namespace paceline::model
