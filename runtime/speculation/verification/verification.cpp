#include "runtime/speculation/verification/verification.hpp"

#include "runtime/base/check.hpp"

namespace paceline::speculation {

namespace {

/// The nodes with `token` below any of `parents`.
std::vector<std::int32_t> below(const token_tree& tree, const std::vector<std::int32_t>& parents,
                                token_id token) {
  std::vector<std::int32_t> found;
  for (const std::int32_t parent : parents)
    for (const std::int32_t node : tree.children(parent))
      if (tree.tokens()[static_cast<std::size_t>(node)] == token) found.push_back(node);
  return found;
}

} // namespace

verdict verify_coupled(const draft& proposal, const verification_context& context, const target_row& rows) {
  verdict result;
  std::vector<token_id> path;
  std::vector<std::int32_t> places{token_tree::root}; // paths are equal if siblings have equal tokens
  for (;;) {
    const sampling::choice chosen = context.sampling->choose(rows(places.front()), context.row_below(path));
    result.next = chosen.token;
    result.hopeless = chosen.hopeless;
    auto matches = chosen.hopeless ? std::vector<std::int32_t>{} : below(proposal.tree, places, chosen.token);
    if (matches.empty()) break;
    places = std::move(matches);
    path.push_back(chosen.token);
  }
  result.accepted_path = proposal.tree.path_to(places.front());
  result.bonus = true;
  for (const std::int32_t place : places) result.bonus = result.bonus && proposal.tree.is_leaf(place);
  return result;
}

verdict verdict_of(const device::chosen_run& run, const token_tree& tree) {
  return {tree.path_to(run.place), run.next, run.bonus, run.hopeless};
}

bool follows_samples(const speculation_params& how, const sampling::pipeline& sampling) noexcept {
  switch (how.rule) {
  case verification_rule::coupled:
    return true;
  case verification_rule::rejection:
  case verification_rule::block:
  case verification_rule::skip_sample_adjustment:
    return sampling.greedy();
  case verification_rule::lenient:
  case verification_rule::typical:
    break;
  }
  return false;
}

verdict verify(const speculation_params& how, const draft& proposal, const verification_context& context,
               const target_row& rows) {
  if (follows_samples(how, *context.sampling)) return verify_coupled(proposal, context, rows);
  request_dice dice(*context.sampling);
  switch (how.rule) {
  case verification_rule::coupled: // this rule follows samples
    break;
  case verification_rule::rejection:
    return verify_rejection(proposal, context, rows, dice);
  case verification_rule::block:
    return verify_block(proposal, context, rows, dice);
  case verification_rule::skip_sample_adjustment:
    return verify_rejection(proposal, context, rows, dice, {.keep_target = true});
  case verification_rule::lenient: {
    const auto lenience = static_cast<double>(how.lenience);
    return context.sampling->greedy()
               ? verify_leniently(proposal, context, rows, lenience)
               : verify_rejection(proposal, context, rows, dice, {.lenience = lenience});
  }
  case verification_rule::typical:
    return verify_typical(proposal, context, rows, static_cast<double>(how.epsilon),
                          static_cast<double>(how.delta));
  }
  fail_check("verification rule", __FILE__, __LINE__, "unknown rule");
}

} // namespace paceline::speculation
