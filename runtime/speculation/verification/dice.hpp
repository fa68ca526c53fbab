#pragma once

#include "runtime/sampling/pipeline.hpp"
#include "runtime/speculation/verification/rejection_rule.hpp"

#include <cstdint>

namespace paceline::speculation {

/// The random decisions of a verification, except the target's own samples. It is an interface so that tests
/// can enumerate all outcomes with their probabilities.
class dice {
 public:
  virtual ~dice() = default;
  /// True, with probability `probability`, if a draft token is kept. `position` and `place` (`draft_place`)
  /// are those of the token.
  virtual bool keeps(double probability, token_position position, std::uint32_t place) = 0;
  /// The token recovered at `position`, drawn from `rest`. May overwrite the row that `rest` was made from.
  virtual token_id recovers(remaining_target& rest, token_position position) = 0;
};

/// Decides with the request's random numbers (Philox) for the purposes `accept` and `residual`. `sampling`
/// must outlive this object.
class request_dice final : public dice {
 public:
  explicit request_dice(const sampling::pipeline& sampling) noexcept : sampling_(&sampling) {}
  bool keeps(double probability, token_position position, std::uint32_t place) override;
  token_id recovers(remaining_target& rest, token_position position) override;

 private:
  const sampling::pipeline* sampling_;
};

} // namespace paceline::speculation
