#pragma once

#include <chrono>
#include <cstdint>

namespace paceline::scheduling {

/// Measured times of rounds, for choosing how many prompt rows fit beside running streams.
class cost_model {
 public:
  /// A round computed `num_context` prompt rows and `num_decode` decode or draft rows in `duration`.
  void observe(std::uint32_t num_context, std::uint32_t num_decode, std::chrono::nanoseconds duration);

  /// Prompt rows for a round that shall take at most `budget` beside the decode rows. At least `min_rows`.
  std::uint32_t prompt_rows_within(std::chrono::nanoseconds budget, std::uint32_t min_rows,
                                   std::uint32_t max_rows) const;

 private:
  double round_ns_ = 0;   ///< of a round with decode rows only
  double per_row_ns_ = 0; ///< of one more prompt row; 0 = never measured
};

} // namespace paceline::scheduling
