#pragma once

#include <chrono>
#include <cstdint>

namespace paceline::scheduling {

/// Predicts the duration of rounds from measured rounds. The scheduler uses it to choose how many prompt rows
/// a round may have while other requests decode. Not thread-safe.
class cost_model {
 public:
  /// A round that computed `num_context` prompt rows and `num_decode` decode or draft rows took `duration`.
  void observe(std::uint32_t num_context, std::uint32_t num_decode, std::chrono::nanoseconds duration);

  /// Number of prompt rows, between `min_rows` and `max_rows`, with which a round, decode rows included,
  /// should take at most `budget`. Until prompt rows have been measured: 16, within the same bounds.
  std::uint32_t prompt_rows_within(std::chrono::nanoseconds budget, std::uint32_t min_rows,
                                   std::uint32_t max_rows) const;

 private:
  double round_ns_ = 0;   ///< for a round with decode rows only
  double per_row_ns_ = 0; ///< for each further prompt row; 0 = not measured
};

} // namespace paceline::scheduling
