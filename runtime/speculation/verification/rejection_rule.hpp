#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/speculation/drafters/draft.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

/// The arithmetic of speculative sampling for one token (Leviathan et al. 2023, section 2.3 and appendix
/// A.1). A token drawn from draft_probs is
///   kept with        accept_probability(target_prob, draft_prob),
///   else replaced by a draw in proportion to residual_weight(target_prob, draft_prob).
/// Then every token's total probability is its target_prob.
namespace paceline::speculation {

template <class Real>
constexpr Real accept_probability(Real target_prob, Real draft_prob) noexcept {
  return draft_prob <= target_prob ? Real{1} : target_prob / draft_prob;
}

template <class Real>
constexpr Real residual_weight(Real target_prob, Real draft_prob) noexcept {
  return target_prob > draft_prob ? target_prob - draft_prob : Real{0};
}

/// A drafter's distribution at one node. Its stored probabilities are rescaled to sum to 1 exactly, since the
/// token was drawn in proportion to the stored bits; a draft without distributions was certain of its token.
class draft_side {
 public:
  draft_side(const draft& proposal, std::int32_t node);

  std::span<const token_id> tokens() const noexcept { return tokens_; }
  double prob(std::size_t entry) const noexcept { return static_cast<double>(probs_[entry]) * scale_; }
  double prob_of(token_id token) const noexcept; ///< 0 for tokens it does not list

 private:
  std::span<const token_id> tokens_;
  std::span<const float> probs_;
  double scale_ = 1.0;
};

/// The target's distribution as a processed row and the sum of its weights (sampling::total_weight).
double target_prob_of(std::span<const float> scores, token_id token, double total) noexcept;

/// Turns the target's scores into those of the residual distribution: only tokens that the drafter could have
/// drawn change. False if nothing is left (both distributions are equal up to rounding); the scores then stay
/// the target's.
bool leave_residual(std::span<float> scores, const draft_side& from, double total);

} // namespace paceline::speculation
