#include "runtime/speculation/verification/verification.hpp"

#include <optional>

namespace paceline::speculation {

namespace {

token_id token_of(const draft& proposal, std::int32_t node) {
  return proposal.tree.tokens()[static_cast<std::size_t>(node)];
}

/// Tries the children of one place in turn. Returns the kept one, or none; then the recovered token is drawn
/// from `rest`.
std::optional<std::int32_t> try_siblings(const draft& proposal, std::span<const std::int32_t> siblings,
                                         remaining_target& rest, token_position position, dice& dice,
                                         const rejection_terms& terms) {
  for (std::uint32_t i = 0; i < siblings.size(); ++i) {
    const std::int32_t node = siblings[i];
    const draft_side from(proposal, node);
    const double keep =
        accept_probability(rest.prob_of(token_of(proposal, node)), terms.lenience * from.prob_of_drawn());
    const std::uint32_t depth = proposal.tree.depths()[static_cast<std::size_t>(node)];
    if (dice.keeps(keep, position, draft_place(depth, i))) return node;
    if (!terms.keep_target) rest.keep_beyond(from, terms.lenience);
  }
  return std::nullopt;
}

} // namespace

verdict verify_rejection(const draft& proposal, const verification_context& context, const target_row& rows,
                         dice& dice, rejection_terms terms) {
  verdict result;
  std::vector<token_id> path;
  std::int32_t at = token_tree::root;
  for (;;) {
    const std::vector<std::int32_t> siblings = proposal.tree.children(at);
    const sampling::row_context row = context.row_below(path);
    const std::span<float> scores = rows(at);
    if (siblings.empty()) {
      const sampling::choice chosen = context.sampling->choose(scores, row);
      result.next = chosen.token;
      result.hopeless = chosen.hopeless;
      result.bonus = true;
      return result;
    }
    if (!context.sampling->process(scores, row)) {
      result.hopeless = true;
      return result;
    }
    remaining_target rest(scores);
    const auto kept = try_siblings(proposal, siblings, rest, row.position, dice, terms);
    if (!kept) {
      result.next = dice.recovers(rest, row.position);
      return result;
    }
    at = *kept;
    result.accepted_path.push_back(at);
    path.push_back(token_of(proposal, at));
  }
}

} // namespace paceline::speculation
