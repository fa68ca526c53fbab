// Trees whose tokens are drawn: their law, and the target's law that they leave to rule `rejection`.
#include "runtime/speculation/drafters/draft_lane.hpp"
#include "runtime/speculation/drafters/registry.hpp"
#include "runtime/speculation/verification/verification.hpp"
#include "tests/runtime/speculation/drafters/drafted_request.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace paceline::speculation {
namespace {

using config::tree_kind;
using test_support::drafted_request;

TEST(drawn_tree, siblings_are_drawn_without_replacement_in_the_law_of_their_order) {
  const draft_distribution from{.tokens = {token_id{2}, token_id{0}, token_id{7}},
                                .probs = {0.5F, 0.3F, 0.2F}};
  constexpr int num_draws = 200000;
  std::map<std::pair<std::int32_t, std::int32_t>, int> seen;
  for (std::uint64_t seed = 0; seed < num_draws; ++seed) {
    const noise_stream noise{.seed = seed, .position = token_position{3}, .purpose = noise_purpose::draft};
    const auto drawn = draw_without_replacement(from, noise, 5);
    ASSERT_EQ(drawn.tokens.size(), 3U);
    ASSERT_EQ(drawn.tokens[0].token, draw(from, noise)) << "the first is an ordinary draw";
    ++seen[{drawn.tokens[0].token.value, drawn.tokens[1].token.value}];
  }
  for (std::size_t a = 0; a < 3; ++a)
    for (std::size_t b = 0; b < 3; ++b) {
      if (a == b) continue;
      const double first = static_cast<double>(from.probs[a]);
      const double prob = first * static_cast<double>(from.probs[b]) / (1 - first);
      const double sigma = std::sqrt(prob * (1 - prob) / num_draws);
      EXPECT_NEAR(static_cast<double>(seen[{from.tokens[a].value, from.tokens[b].value}]) / num_draws, prob,
                  5 * sigma);
    }
}

/// The shape must not depend on what was drawn: for a fixed context, the number of children of a node of the
/// first level may depend on that node, but not on the children's own tokens.
TEST(drawn_tree, drawn_children_follow_their_distribution_whatever_the_shape) {
  for (const tree_kind kind : {tree_kind::dynamic, tree_kind::optimal, tree_kind::dart}) {
    SCOPED_TRACE(static_cast<int>(kind));
    constexpr std::uint32_t small = 6;
    const model::hash_model oracle({.vocab_size = small, .sharpness = 2.0F});
    auto own =
        std::make_shared<model::hash_model>(model::hash_model_config{.vocab_size = small, .sharpness = 2.0F});
    drafter_parts parts{
        .options = test::options_of("small", "model"), .own_model = own, .target_vocab_size = small};
    parts.options.tree = kind;
    parts.options.tree_top_k = 2;
    parts.options.max_tree_nodes = 7;
    const auto made = drafter_registry::with_built_in().make(parts).value();
    // Given the first level's first token, the first child has the model's distribution.
    std::map<std::int32_t, std::map<std::int32_t, double>> seen;
    std::map<std::int32_t, double> totals;
    for (std::uint64_t seed = 0; seed < 20000; ++seed) {
      drafted_request one(*made, {.seed = seed}, 3, small, 8);
      one.rule = verification_rule::rejection;
      one.draft_length = 3;
      const draft proposal = one.propose();
      const token_tree& tree = proposal.tree;
      for (std::size_t node = 0; node < tree.size(); ++node)
        if (tree.parents()[node] == 0) {
          ++seen[tree.tokens()[0].value][tree.tokens()[node].value];
          ++totals[tree.tokens()[0].value];
          break; // the first child only
        }
    }
    drafted_request one(*made, {}, 3, small, 8);
    for (const auto& [first, total] : totals) {
      const std::vector<token_id> path{token_id{first}};
      auto logits = one.logits_below(oracle, path);
      ASSERT_TRUE(one.pipeline.process(logits, one.row_below(path)));
      const draft_distribution law = truncated_distribution(logits);
      for (std::size_t i = 0; i < law.tokens.size(); ++i) {
        const double prob = static_cast<double>(law.probs[i]);
        EXPECT_NEAR(seen[first][law.tokens[i].value] / total, prob,
                    5 * std::sqrt(prob * (1 - prob) / total) + 1e-9)
            << "after " << first << " of " << total;
      }
    }
  }
}

constexpr std::uint32_t small_vocab = 5;

/// How often each pair of first and second token was committed.
using pair_counts = std::map<std::pair<std::int32_t, std::int32_t>, double>;

/// A drafter of drawn trees, whose model is not the target.
std::unique_ptr<drafter> make_other_drafter(tree_kind kind) {
  drafter_parts parts{.options = test::options_of("small", "model"),
                      .own_model = std::make_shared<model::hash_model>(
                          model::hash_model_config{.vocab_size = small_vocab, .sharpness = 3.0F, .salt = 3}),
                      .target_vocab_size = small_vocab};
  parts.options.tree = kind;
  parts.options.tree_top_k = 2;
  parts.options.max_tree_nodes = 5;
  return drafter_registry::with_built_in().make(parts).value();
}

/// Verifies `proposal` by the request's rule.
verdict verify_against(const model::hash_model& target, const drafted_request& one, const draft& proposal) {
  const verification_context context{
      .sampling = &one.pipeline, .counts = &one.counts, .next_position = token_position{3}};
  std::vector<std::vector<float>> rows;
  rows.reserve(proposal.tree.size() + 1);
  return verify({.rule = one.rule}, proposal, context, [&](std::int32_t node) {
    std::vector<token_id> path;
    for (const std::int32_t above : proposal.tree.path_to(node))
      path.push_back(proposal.tree.tokens()[static_cast<std::size_t>(above)]);
    rows.push_back(one.logits_below(target, path));
    return std::span(rows.back());
  });
}

/// The first two tokens that are committed under rule `rejection`.
std::pair<std::int32_t, std::int32_t> first_two_tokens(const model::hash_model& target, drafter& made,
                                                       std::uint64_t seed) {
  drafted_request one(made, {.seed = seed}, 3, small_vocab, 8);
  one.rule = verification_rule::rejection;
  one.draft_length = 2;
  const draft proposal = one.propose();
  const verdict decided = verify_against(target, one, proposal);
  std::vector<token_id> committed;
  for (const std::int32_t node : decided.accepted_path)
    committed.push_back(proposal.tree.tokens()[static_cast<std::size_t>(node)]);
  committed.push_back(decided.next);
  if (committed.size() < 2) { // that of the next round, without a draft
    auto logits = one.logits_below(target, committed);
    committed.push_back(one.pipeline.process_and_sample(logits, one.row_below(committed)));
  }
  return {committed[0].value, committed[1].value};
}

/// The target's distribution of the token after `path`.
std::vector<double> probs_below(const model::hash_model& target, const drafted_request& one,
                                const std::vector<token_id>& path) {
  auto logits = one.logits_below(target, path);
  EXPECT_TRUE(one.pipeline.process(logits, one.row_below(path)));
  const double total = sampling::total_weight(logits);
  std::vector<double> probs;
  for (const float score : logits) probs.push_back(std::exp(static_cast<double>(score)) / total);
  return probs;
}

void expect_the_targets_law(pair_counts seen, double num_draws, const model::hash_model& target,
                            const drafted_request& one) {
  const auto first = probs_below(target, one, {});
  for (std::int32_t a = 0; a < static_cast<std::int32_t>(small_vocab); ++a) {
    const auto second = probs_below(target, one, {token_id{a}});
    for (std::int32_t b = 0; b < static_cast<std::int32_t>(small_vocab); ++b) {
      const double prob = first[static_cast<std::size_t>(a)] * second[static_cast<std::size_t>(b)];
      const double share = seen[std::pair(a, b)] / num_draws;
      EXPECT_NEAR(share, prob, 4.5 * std::sqrt(prob * (1 - prob) / num_draws)) << a << " " << b;
    }
  }
}

/// Drafts that are drawn, and verified by rule `rejection`: the first two tokens have the target's
/// distribution. Dropping drawn nodes because of their tokens (re-ranking) would change it.
TEST(drawn_tree, drawn_trees_leave_the_targets_law_to_rule_rejection) {
  constexpr std::uint64_t num_draws = 30000;
  const model::hash_model target({.vocab_size = small_vocab, .sharpness = 3.0F});
  for (const tree_kind kind :
       {tree_kind::chain, tree_kind::fixed, tree_kind::dynamic, tree_kind::optimal, tree_kind::independent}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const auto made = make_other_drafter(kind);
    pair_counts seen;
    for (std::uint64_t seed = 0; seed < num_draws; ++seed) ++seen[first_two_tokens(target, *made, seed)];
    expect_the_targets_law(seen, num_draws, target, drafted_request(*made, {}, 3, small_vocab, 8));
  }
}

} // namespace
} // namespace paceline::speculation
