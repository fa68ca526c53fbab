#pragma once

/// The arithmetic of block verification (Sun et al., "Block verification accelerates speculative decoding",
/// equations 3 to 5) for a chain of draft tokens drawn from draft_probs.
///
/// The joint probability of the first i tokens is joint(i) = joint_probability(joint(i - 1), ...), with
/// joint(0) = 1. It is the probability, given those tokens, that at least i tokens are kept. Each prefix of
/// the chain has its own random decision: the whole chain of n tokens is kept with probability joint(n), a
/// shorter prefix with block_keep_probability. The longest prefix with a positive decision is kept. After
/// i < n tokens the recovered token is drawn in proportion to max(0, joint(i) * target_probs - draft_probs).
namespace paceline::speculation {

template <class Real>
constexpr Real joint_probability(Real joint, Real target_prob, Real draft_prob) noexcept {
  return joint * target_prob >= draft_prob ? Real{1} : joint * target_prob / draft_prob;
}

/// `mass` is the sum over tokens of max(0, joint * target_prob - draft_prob) after the prefix.
template <class Real>
constexpr Real block_keep_probability(Real joint, Real mass) noexcept {
  if (joint >= Real{1}) return Real{1}; // the prefix is always kept; `mass` may be 0 then
  return mass / (mass + Real{1} - joint);
}

} // namespace paceline::speculation
