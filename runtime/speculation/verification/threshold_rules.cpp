#include "runtime/base/check.hpp"
#include "runtime/base/portable_math.hpp"
#include "runtime/speculation/verification/verification.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace paceline::speculation {

namespace {

struct row_bound {
  double least = 0;                ///< the lowest score with which a token is kept
  std::optional<double> log_total; ///< logarithm of the row's total weight, for rules that choose among equal
                                   ///< depths by likelihood
};

/// Prepares a row and returns its bound; none if the row has no finite logits.
using row_threshold =
    std::function<std::optional<row_bound>(std::span<float> row, const sampling::row_context& context)>;

/// A node that is kept with all its ancestors.
struct kept_node {
  std::int32_t node;
  double log_likelihood; ///< log-likelihood of the path to the node, for rules that use it
};

/// Decides about every draft token independently. The result is the deepest path of kept tokens; among
/// equally deep paths it is the likeliest, or else the first. The next token is the request's own sample from
/// the last row.
verdict verify_by_threshold(const draft& proposal, const verification_context& context,
                            const target_row& rows, const row_threshold& threshold) {
  const token_tree& tree = proposal.tree;
  std::vector<kept_node> kept{{token_tree::root, 0}}; // parents first
  kept_node best = kept.front();
  const auto depth_of = [&](std::int32_t node) {
    return node == token_tree::root ? 0 : tree.depths()[static_cast<std::size_t>(node)] + 1;
  };
  std::vector<std::span<float>> seen(tree.size() + 1);
  std::vector<bool> hopeless(tree.size() + 1);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto [at, likelihood] = kept[i];
    const auto children = tree.children(at);
    if (children.empty()) continue;
    const std::vector<token_id> path = tree.path_tokens(at);
    const auto index = static_cast<std::size_t>(at + 1);
    seen[index] = rows(at);
    const auto bound = threshold(seen[index], context.row_below(path));
    hopeless[index] = !bound;
    for (const std::int32_t child : children) {
      const auto token = static_cast<std::size_t>(tree.tokens()[static_cast<std::size_t>(child)].value);
      PACELINE_CHECK(token < seen[index].size(), "a draft token outside the vocabulary");
      const auto score = static_cast<double>(seen[index][token]);
      if (!bound || !(score >= bound->least)) continue;
      kept.push_back({child, likelihood + (bound->log_total ? score - *bound->log_total : 0)});
      const auto rank = [&](const kept_node& one) {
        return std::pair(depth_of(one.node), one.log_likelihood);
      };
      if (rank(kept.back()) > rank(best)) best = kept.back();
    }
  }
  const std::int32_t deepest = best.node;
  verdict result;
  result.accepted_path = tree.path_to(deepest);
  const std::vector<token_id> path = tree.path_tokens(deepest);
  const sampling::row_context row = context.row_below(path);
  const auto index = static_cast<std::size_t>(deepest + 1);
  result.bonus = seen[index].empty();
  if (result.bonus) {
    const sampling::choice chosen = context.sampling->choose(rows(deepest), row);
    result.next = chosen.token;
    result.hopeless = chosen.hopeless;
  } else if (hopeless[index]) {
    result.hopeless = true;
  } else {
    result.next = context.sampling->sample(seen[index], row.position);
  }
  return result;
}

/// Entropy, in nats, of a processed row whose weights sum to `total`.
double entropy(std::span<const float> scores, double total) {
  double sum = 0;
  for (const float score : scores)
    if (score > -std::numeric_limits<float>::infinity())
      sum += static_cast<double>(portable_exp(score)) * static_cast<double>(score);
  return portable_log(total) - sum / total;
}

} // namespace

verdict verify_typical(const draft& proposal, const verification_context& context, const target_row& rows,
                       double epsilon, double delta) {
  return verify_by_threshold(
      proposal, context, rows,
      [&](std::span<float> row, const sampling::row_context& at) -> std::optional<row_bound> {
        if (!context.sampling->process(row, at)) return std::nullopt;
        const double total = sampling::total_weight(row), log_total = portable_log(total);
        const double bound = std::min(portable_log(epsilon), portable_log(delta) - entropy(row, total));
        return row_bound{bound + log_total, log_total};
      });
}

verdict verify_leniently(const draft& proposal, const verification_context& context, const target_row& rows,
                         double lenience) {
  return verify_by_threshold(
      proposal, context, rows,
      [&](std::span<float> row, const sampling::row_context& at) -> std::optional<row_bound> {
        if (!context.sampling->rank(row, at)) return std::nullopt;
        return row_bound{portable_log(lenience), std::nullopt};
      });
}

} // namespace paceline::speculation
