#include "runtime/speculation/verification/block_rule.hpp"
#include "runtime/speculation/verification/verification.hpp"

namespace paceline::speculation {

namespace {

/// A position of a chain, after its first draft tokens.
struct place {
  double joint = 1.0; ///< joint probability of those tokens
  remaining_target rest;
  draft_side from; ///< distribution of the next draft token

  /// Probability mass of max(0, joint * target_probs - draft_probs).
  double mass() const { return joint > 0 ? joint * rest.mass_beyond(from, 1.0 / joint) : 0.0; }
};

/// A chain and the target's rows along it.
struct block {
  std::vector<place> places; ///< the place before each draft token
  double joint = 1.0;        ///< joint probability of all draft tokens
  bool hopeless = false;     ///< the chain was truncated at a row without finite logits
};

block read_block(const draft& proposal, const verification_context& context, const target_row& rows) {
  block result;
  for (std::int32_t node = 0; node < static_cast<std::int32_t>(proposal.tree.size()); ++node) {
    const auto length = static_cast<std::size_t>(node);
    const std::span<float> scores = rows(node - 1);
    if (!context.sampling->process(scores, context.row_below(proposal.tree.tokens().first(length)))) {
      result.hopeless = true;
      break;
    }
    place next{result.joint, remaining_target(scores), draft_side(proposal, node)};
    result.joint = joint_probability(result.joint, next.rest.prob_of(proposal.tree.tokens()[length]),
                                     next.from.prob_of_drawn());
    result.places.push_back(std::move(next));
  }
  return result;
}

} // namespace

verdict verify_block(const draft& proposal, const verification_context& context, const target_row& rows,
                     dice& dice) {
  // If all draft tokens have probability 1, block verification gains nothing, because the probability of each
  // prefix is the product of its tokens' probabilities. With a constraint it would take the masks of rows
  // behind rejected tokens, too: work that plain decoding does not do and that might end the request.
  if (!proposal.tree.is_chain() || proposal.probs.empty() || context.constraint != nullptr)
    return verify_rejection(proposal, context, rows, dice);
  block chain = read_block(proposal, context, rows);
  const std::size_t length = chain.places.size();
  // The longest prefix that is kept counts, so shorter prefixes need no decision.
  std::size_t kept = length;
  for (; kept > 0; --kept) {
    const double keep = kept == length
                            ? chain.joint
                            : block_keep_probability(chain.places[kept].joint, chain.places[kept].mass());
    const auto last = static_cast<std::uint32_t>(kept - 1);
    if (dice.keeps(keep, token_position{context.next_position.value + last}, draft_place(last, 0))) break;
  }
  verdict result;
  for (std::size_t node = 0; node < kept; ++node)
    result.accepted_path.push_back(static_cast<std::int32_t>(node));
  const sampling::row_context row = context.row_below(proposal.tree.tokens().first(kept));
  if (kept < length) {
    place& last = chain.places[kept];
    last.rest.keep_beyond(last.from, 1.0 / last.joint);
    result.next = dice.recovers(last.rest, row.position);
  } else if (chain.hopeless) {
    result.hopeless = true;
  } else {
    const sampling::choice chosen =
        context.sampling->choose(rows(static_cast<std::int32_t>(length) - 1), row);
    result.next = chosen.token;
    result.hopeless = chosen.hopeless;
    result.bonus = true;
  }
  return result;
}

} // namespace paceline::speculation
