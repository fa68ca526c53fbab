#include "runtime/speculation/verification/verification.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/portable_math.hpp"
#include "runtime/sampling/row_kernels.hpp"
#include "runtime/speculation/verification/rejection_rule.hpp"

#include <limits>

namespace paceline::speculation {

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

/// The context of the row below `path`: the path's tokens are part of what penalties and minimum length see.
sampling::row_context row_below(const verification_context& context, const std::vector<token_id>& path) {
  const auto depth = static_cast<std::uint32_t>(path.size());
  return {.committed = context.counts,
          .draft_path = path,
          .position = context.next_position + depth,
          .output_index = context.output_index + depth};
}

token_id token_of(const draft& proposal, std::int32_t node) {
  return proposal.tree.tokens()[static_cast<std::size_t>(node)];
}

/// The drafter's distribution at a node with the factor that makes its stored probabilities sum to 1 exactly:
/// the draft token was drawn in proportion to the stored bits.
struct draft_side {
  std::span<const token_id> tokens;
  std::span<const float> probs;
  double scale = 1.0;

  double prob(std::size_t entry) const noexcept { return static_cast<double>(probs[entry]) * scale; }
  double prob_of(token_id token) const noexcept {
    for (std::size_t entry = 0; entry < tokens.size(); ++entry)
      if (tokens[entry] == token) return prob(entry);
    return 0.0;
  }
};

draft_side draft_side_of(const draft& proposal, std::int32_t node) {
  static constexpr float certain = 1.0F;
  const auto index = static_cast<std::size_t>(node);
  if (proposal.probs.empty())
    return {.tokens = proposal.tree.tokens().subspan(index, 1), .probs = {&certain, 1}};
  const draft_distribution& from = proposal.probs[index];
  PACELINE_CHECK(from.tokens.size() == from.probs.size(), "a draft distribution's arrays differ in length");
  double sum = 0;
  for (const float prob : from.probs) sum += static_cast<double>(prob);
  return {.tokens = from.tokens, .probs = from.probs, .scale = 1.0 / sum};
}

double target_prob_of(std::span<const float> scores, token_id token, double total) {
  return static_cast<double>(portable_exp(scores[static_cast<std::size_t>(token.value)])) / total;
}

/// Turns target scores into scores of the residual. Only tokens that the drafter could have drawn change.
/// False if nothing is left: then both distributions are equal up to rounding, and the scores stay the
/// target's.
bool leave_residual(std::span<float> scores, const draft_side& from, double total) {
  std::vector<float> reduced(from.tokens.size());
  double remaining = 1.0;
  for (std::size_t entry = 0; entry < from.tokens.size(); ++entry) {
    const double target_prob = target_prob_of(scores, from.tokens[entry], total);
    const double weight = residual_weight(target_prob, from.prob(entry));
    remaining -= target_prob - weight;
    reduced[entry] = weight > 0 ? static_cast<float>(portable_log(weight * total)) : minus_infinity;
  }
  if (!(remaining > 1e-12)) return false;
  for (std::size_t entry = 0; entry < from.tokens.size(); ++entry)
    scores[static_cast<std::size_t>(from.tokens[entry].value)] = reduced[entry];
  return true;
}

verdict plain_choice(verdict so_far, const verification_context& context, const std::vector<token_id>& path,
                     std::span<float> logits) {
  const sampling::choice chosen = context.sampling->choose(logits, row_below(context, path));
  so_far.next = chosen.token;
  so_far.hopeless = chosen.hopeless;
  so_far.bonus = true;
  return so_far;
}

} // namespace

verdict verify_coupled(const draft& proposal, const verification_context& context, const target_row& rows) {
  verdict result;
  std::vector<token_id> path;
  std::int32_t at = token_tree::root;
  for (;;) {
    const sampling::choice chosen = context.sampling->choose(rows(at), row_below(context, path));
    result.next = chosen.token;
    result.hopeless = chosen.hopeless;
    const auto match = chosen.hopeless ? std::nullopt : proposal.tree.child(at, chosen.token);
    if (!match) break;
    at = *match;
    result.accepted_path.push_back(at);
    path.push_back(chosen.token);
  }
  result.bonus = proposal.tree.is_leaf(at);
  return result;
}

verdict verify_rejection(const draft& proposal, const verification_context& context, const target_row& rows) {
  // With a one-hot target the ratio is 1 for the target's token and 0 for all others: rule `coupled`, without
  // sums.
  if (context.sampling->greedy()) return verify_coupled(proposal, context, rows);
  PACELINE_CHECK(proposal.tree.is_chain(), "rule rejection verifies chains");
  PACELINE_CHECK(proposal.probs.empty() || proposal.probs.size() == proposal.tree.size(),
                 "one distribution a node, or none");
  verdict result;
  std::vector<token_id> path;
  for (std::int32_t node = 0; node < static_cast<std::int32_t>(proposal.tree.size()); ++node) {
    const std::span<float> scores = rows(node - 1);
    const sampling::row_context row = row_below(context, path);
    const token_id drafted = token_of(proposal, node);
    if (!context.sampling->process(scores, row)) {
      result.hopeless = true;
      return result;
    }
    const draft_side from = draft_side_of(proposal, node);
    const double draft_prob = from.prob_of(drafted);
    PACELINE_CHECK(draft_prob > 0, "a draft token that its own distribution excludes");
    const double total = sampling::total_weight(scores);
    const double keep = accept_probability(target_prob_of(scores, drafted, total), draft_prob);
    if (!(context.sampling->noise(noise_purpose::accept, row.position).uniform() < keep)) {
      leave_residual(scores, from, total);
      result.next =
          sampling::gumbel_argmax(scores, context.sampling->noise(noise_purpose::residual, row.position));
      return result;
    }
    result.accepted_path.push_back(node);
    path.push_back(drafted);
  }
  return plain_choice(std::move(result), context, path,
                      rows(static_cast<std::int32_t>(proposal.tree.size()) - 1));
}

verdict verify(verification_rule rule, const draft& proposal, const verification_context& context,
               const target_row& rows) {
  switch (rule) {
  case verification_rule::coupled:
    return verify_coupled(proposal, context, rows);
  case verification_rule::rejection:
    return verify_rejection(proposal, context, rows);
  }
  fail_check("verification rule", __FILE__, __LINE__, "unknown rule");
}

} // namespace paceline::speculation
