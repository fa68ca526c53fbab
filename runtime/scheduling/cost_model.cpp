#include "runtime/scheduling/cost_model.hpp"

#include <algorithm>

namespace paceline::scheduling {

namespace {

/// An estimate that increases at once and decreases slowly, because a long pause is worse than a slightly
/// later prompt.
double pessimistic(double estimate, double sample) {
  return sample > estimate ? sample : estimate + 0.2 * (sample - estimate);
}

constexpr std::uint32_t first_chunk_rows = 16; ///< before anything was measured

} // namespace

void cost_model::observe(std::uint32_t num_context, std::uint32_t num_decode,
                         std::chrono::nanoseconds duration) {
  const auto ns = static_cast<double>(duration.count());
  if (ns <= 0) return;
  if (num_context == 0) {
    if (num_decode > 0) round_ns_ = pessimistic(round_ns_, ns);
    return;
  }
  if (num_context < first_chunk_rows) return; // the time of such a pass depends little on its rows
  per_row_ns_ =
      pessimistic(per_row_ns_, std::max(ns - (num_decode > 0 ? round_ns_ : 0.0), 0.0) / num_context);
}

std::uint32_t cost_model::prompt_rows_within(std::chrono::nanoseconds budget, std::uint32_t min_rows,
                                             std::uint32_t max_rows) const {
  if (per_row_ns_ <= 0) return std::clamp(first_chunk_rows, min_rows, max_rows);
  const double left = static_cast<double>(budget.count()) - round_ns_;
  const double rows = std::clamp(left / per_row_ns_, 0.0, static_cast<double>(max_rows));
  return std::clamp(static_cast<std::uint32_t>(rows), min_rows, max_rows);
}

} // namespace paceline::scheduling
