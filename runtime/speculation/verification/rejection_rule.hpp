#pragma once

/// The arithmetic of speculative sampling for one token (Leviathan et al. 2023, section 2.3 and appendix
/// A.1), apart from where probabilities come from, so that it can be tested exactly. For a token drawn from
/// draft_probs:
///   kept with        accept_probability(target_prob, draft_prob)
///   else replaced by a draw from residual_weight(target_prob, draft_prob), normalised.
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

} // namespace paceline::speculation
