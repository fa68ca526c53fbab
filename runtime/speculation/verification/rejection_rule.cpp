#include "runtime/speculation/verification/rejection_rule.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/portable_math.hpp"
#include "runtime/sampling/pipeline.hpp"

#include <algorithm>
#include <limits>

namespace paceline::speculation {

namespace {

constexpr float certain = 1.0F;
/// Share of a row's mass below which a residual is rounding error, because probabilities have the 24 bits of
/// floats.
constexpr double smallest_mass = 1e-12;

} // namespace

draft_side::draft_side(const draft& proposal, std::int32_t node) {
  const auto index = static_cast<std::size_t>(node);
  PACELINE_CHECK(proposal.probs.empty() || proposal.probs.size() == proposal.tree.size(),
                 "one distribution a node, or none");
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
  drawn_ = prob_of(proposal.tree.tokens()[index]);
  PACELINE_CHECK(drawn_ > 0, "a draft token that its own distribution excludes");
}

double draft_side::prob_of(token_id token) const noexcept {
  for (std::size_t entry = 0; entry < tokens_.size(); ++entry)
    if (tokens_[entry] == token) return prob(entry);
  return 0.0;
}

remaining_target::remaining_target(std::span<float> scores)
    : scores_(scores), total_(sampling::total_weight(scores)), negligible_(smallest_mass * total_) {}

double remaining_target::weight_of(token_id token) const {
  PACELINE_CHECK(token.value >= 0 && static_cast<std::size_t>(token.value) < scores_.size(),
                 "draft token " + to_string(token) + " outside the vocabulary");
  for (const reduced& entry : reduced_)
    if (entry.token == token) return entry.weight;
  return static_cast<double>(portable_exp(scores_[static_cast<std::size_t>(token.value)]));
}

double remaining_target::mass_beyond(const draft_side& from, double factor) const {
  double mass = 1.0;
  for (std::size_t entry = 0; entry < from.tokens().size(); ++entry) {
    const double target_prob = prob_of(from.tokens()[entry]);
    mass -= target_prob - residual_weight(target_prob, factor * from.prob(entry));
  }
  return std::max(mass, 0.0);
}

bool remaining_target::keep_beyond(const draft_side& from, double factor) {
  std::vector<reduced> left;
  double total = total_;
  for (std::size_t entry = 0; entry < from.tokens().size(); ++entry) {
    const token_id token = from.tokens()[entry];
    const double before = weight_of(token);
    const double after = residual_weight(before, factor * from.prob(entry) * total_);
    total -= before - after;
    left.push_back({token, after});
  }
  if (!(total > negligible_)) return false;
  for (const reduced& entry : reduced_)
    if (std::none_of(left.begin(), left.end(),
                     [&](const reduced& other) { return other.token == entry.token; }))
      left.push_back(entry);
  reduced_ = std::move(left);
  total_ = total;
  return true;
}

std::span<const float> remaining_target::write_scores() {
  for (const reduced& entry : reduced_)
    scores_[static_cast<std::size_t>(entry.token.value)] =
        entry.weight > 0 ? static_cast<float>(portable_log(entry.weight))
                         : -std::numeric_limits<float>::infinity();
  return scores_;
}

} // namespace paceline::speculation
