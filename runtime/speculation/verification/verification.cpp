#include "runtime/speculation/verification/verification.hpp"

#include "runtime/base/check.hpp"
#include "runtime/sampling/row_kernels.hpp"
#include "runtime/speculation/verification/rejection_rule.hpp"

namespace paceline::speculation {

namespace {

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
  // With a one-hot target the ratio is positive for the target's own token only: rule `coupled`, without
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
    const draft_side from(proposal, node);
    for (const token_id token : from.tokens())
      PACELINE_CHECK(token.value >= 0 && static_cast<std::size_t>(token.value) < scores.size(),
                     "draft token " + to_string(token) + " outside the vocabulary");
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
  const auto last = static_cast<std::int32_t>(proposal.tree.size()) - 1;
  const sampling::choice chosen = context.sampling->choose(rows(last), row_below(context, path));
  result.next = chosen.token;
  result.hopeless = chosen.hopeless;
  result.bonus = true;
  return result;
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
