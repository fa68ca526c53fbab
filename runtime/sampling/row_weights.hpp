#pragma once

#include <limits>
#include <span>

/// Kernels from logits to weights that read every element of a row. Compiled once for each vector width.
/// Results are defined by the order of the elements alone, so they have the same bits at every width.
namespace paceline::sampling {

/// Turns a logit into a score: (logit - shift) / divisor. With the row's maximum as shift no difference
/// overflows. NaN counts as -infinity, +infinity as the largest finite value.
struct row_scale {
  float shift = 0;
  float divisor = 1;

  static constexpr float ordered(float logit) noexcept {
    const float bounded =
        logit < std::numeric_limits<float>::max() ? logit : std::numeric_limits<float>::max();
    return logit == logit ? bounded : -std::numeric_limits<float>::infinity();
  }
  constexpr float operator()(float logit) const noexcept { return (ordered(logit) - shift) / divisor; }
};

/// row[i] = scale(row[i]).
void apply_scale(const row_scale& scale, std::span<float> row) noexcept;

/// out[i] = scale(row[i]); `out` must be at least as long as `row`.
void scaled(std::span<const float> row, const row_scale& scale, std::span<float> out) noexcept;

/// Sum over the row of portable_exp(scale(row[i])) in double precision, in an order that only depends on the
/// row's length.
double sum_of_exp(std::span<const float> row, const row_scale& scale) noexcept;

/// scores[i] = portable_exp(scores[i]).
void exponentials(std::span<float> scores) noexcept;

} // namespace paceline::sampling
