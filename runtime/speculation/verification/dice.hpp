#pragma once

#include "runtime/sampling/pipeline.hpp"
#include "runtime/speculation/verification/rejection_rule.hpp"

#include <cstdint>

namespace paceline::speculation {

/// The random decisions of a verification, except the target's own samples. An interface, so that tests can
/// enumerate all outcomes with their probabilities.
class dice {
 public:
  virtual ~dice() = default;
  /// True with `probability`. `position` and `place` (`draft_place`) are those of the draft token to decide
  /// on.
  virtual bool keeps(double probability, token_position position, std::uint32_t place) = 0;
  /// The token recovered at `position`, drawn from the remaining target distribution. May overwrite its row.
  virtual token_id recovers(remaining_target& rest, token_position position) = 0;
};

/// Decisions by the request's noise: Philox purposes `accept` and `residual`.
class request_dice final : public dice {
 public:
  explicit request_dice(const sampling::pipeline& sampling) noexcept : sampling_(&sampling) {}
  bool keeps(double probability, token_position position, std::uint32_t place) override;
  token_id recovers(remaining_target& rest, token_position position) override;

 private:
  const sampling::pipeline* sampling_;
};

} // namespace paceline::speculation
