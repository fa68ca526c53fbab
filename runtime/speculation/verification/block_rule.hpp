#pragma once

/// The arithmetic of block verification (Sun et al., "Block verification accelerates speculative decoding",
/// equations 3 to 5) over a chain of draft tokens drawn from draft_probs.
///
/// The joint probability of the first i tokens is joint(i) = joint_probability(joint(i - 1), ...), joint(0) =
/// 1: the probability, given those tokens, that at least i of them are kept. The longest run is kept whose
/// own decision says so: with joint(n) for the whole chain of n, with block_keep_probability for a shorter
/// one. After i < n tokens follows a draw in proportion to max(0, joint(i) * target_probs - draft_probs).
namespace paceline::speculation {

template <class Real>
constexpr Real joint_probability(Real joint, Real target_prob, Real draft_prob) noexcept {
  return joint * target_prob >= draft_prob ? Real{1} : joint * target_prob / draft_prob;
}

/// `mass` = sum over tokens of max(0, joint * target_prob - draft_prob) behind the run.
template <class Real>
constexpr Real block_keep_probability(Real joint, Real mass) noexcept {
  if (joint >= Real{1}) return Real{1}; // both are equal if nothing is left: then nothing was rejected either
  return mass / (mass + Real{1} - joint);
}

} // namespace paceline::speculation
