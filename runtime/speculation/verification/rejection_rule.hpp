#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/speculation/drafters/draft.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// The arithmetic of speculative sampling for one token (Leviathan et al. 2023, section 2.3 and appendix
/// A.1). A token drawn from draft_probs is kept with probability accept_probability(target_prob, draft_prob);
/// otherwise it is replaced by a draw in proportion to residual_weight(target_prob, draft_prob). The total
/// probability of every token is then its target_prob. Instead of a replacement, another draft token can be
/// tried in the same way, with the residual in place of target_probs. This is how the siblings in a tree are
/// tried in turn (SpecInfer, Miao et al. 2024, "multi-step speculative sampling").
namespace paceline::speculation {

template <class Real>
constexpr Real accept_probability(Real target_prob, Real draft_prob) noexcept {
  return draft_prob <= target_prob ? Real{1} : target_prob / draft_prob;
}

template <class Real>
constexpr Real residual_weight(Real target_prob, Real draft_prob) noexcept {
  return target_prob > draft_prob ? target_prob - draft_prob : Real{0};
}

/// The distribution from which a drafter drew the token of one node. The stored probabilities are rescaled so
/// that their sum is 1, because the token was drawn in proportion to them. In a draft without distributions,
/// each distribution is one-hot.
class draft_side {
 public:
  draft_side(const draft& proposal, std::int32_t node);

  std::span<const token_id> tokens() const noexcept { return tokens_; }
  double prob(std::size_t entry) const noexcept { return static_cast<double>(probs_[entry]) * scale_; }
  double prob_of(token_id token) const noexcept; ///< 0 for tokens that the distribution does not list
  /// Probability of the node's own token; positive for a valid draft.
  double prob_of_drawn() const noexcept { return drawn_; }

 private:
  std::span<const token_id> tokens_;
  std::span<const float> probs_;
  double scale_ = 1.0;
  double drawn_ = 1.0;
};

/// The target's distribution (`probs` below) at one position, reduced after each rejected draft token.
/// Changed weights are stored in double precision beside the row; there are few of them, because a drafter
/// lists at most 64 tokens.
class remaining_target {
 public:
  /// `scores` is a processed row (sampling::pipeline::process); it must outlive this object.
  explicit remaining_target(std::span<float> scores);

  double prob_of(token_id token) const { return weight_of(token) / total_; }
  std::size_t vocab_size() const noexcept { return scores_.size(); }

  /// Probability mass of max(0, probs - factor * draft_probs).
  double mass_beyond(const draft_side& from, double factor) const;
  /// Replaces the distribution by max(0, probs - factor * draft_probs), rescaled to sum 1. False, without a
  /// change, if the remaining mass is only rounding error.
  bool keep_beyond(const draft_side& from, double factor);

  /// Writes the distribution into the row, as scores up to a constant.
  std::span<const float> write_scores();

 private:
  struct reduced {
    token_id token;
    double weight = 0;
  };
  double weight_of(token_id token) const;

  std::span<float> scores_;
  std::vector<reduced> reduced_; ///< weights that differ from e^score
  double total_;                 ///< sum of all weights
  double negligible_;            ///< a total below this is rounding error
};

} // namespace paceline::speculation
