#include "runtime/speculation/verification/rejection_rule.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/portable_math.hpp"

#include <array>
#include <limits>

namespace paceline::speculation {

namespace {

constexpr float certain = 1.0F;
/// Residual mass below which it is rounding error: probabilities carry floats' 24 bits.
constexpr double smallest_mass = 1e-12;

} // namespace

draft_side::draft_side(const draft& proposal, std::int32_t node) {
  const auto index = static_cast<std::size_t>(node);
  if (proposal.probs.empty()) {
    tokens_ = proposal.tree.tokens().subspan(index, 1);
    probs_ = {&certain, 1};
    return;
  }
  const draft_distribution& from = proposal.probs[index];
  PACELINE_CHECK(from.tokens.size() == from.probs.size() &&
                     from.tokens.size() <= draft_distribution::max_entries,
                 "a draft distribution's arrays differ in length or exceed 64 entries");
  tokens_ = from.tokens;
  probs_ = from.probs;
  double sum = 0;
  for (const float prob : probs_) sum += static_cast<double>(prob);
  scale_ = 1.0 / sum;
}

double draft_side::prob_of(token_id token) const noexcept {
  for (std::size_t entry = 0; entry < tokens_.size(); ++entry)
    if (tokens_[entry] == token) return prob(entry);
  return 0.0;
}

double target_prob_of(std::span<const float> scores, token_id token, double total) noexcept {
  return static_cast<double>(portable_exp(scores[static_cast<std::size_t>(token.value)])) / total;
}

bool leave_residual(std::span<float> scores, const draft_side& from, double total) {
  std::array<float, draft_distribution::max_entries> reduced;
  const std::span<const token_id> tokens = from.tokens();
  double remaining = 1.0;
  for (std::size_t entry = 0; entry < tokens.size(); ++entry) {
    const double target_prob = target_prob_of(scores, tokens[entry], total);
    const double weight = residual_weight(target_prob, from.prob(entry));
    remaining -= target_prob - weight;
    reduced[entry] = weight > 0 ? static_cast<float>(portable_log(weight * total))
                                : -std::numeric_limits<float>::infinity();
  }
  if (!(remaining > smallest_mass)) return false;
  for (std::size_t entry = 0; entry < tokens.size(); ++entry)
    scores[static_cast<std::size_t>(tokens[entry].value)] = reduced[entry];
  return true;
}

} // namespace paceline::speculation
