#include "runtime/speculation/trees/tree_shape.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>

namespace paceline::speculation {
namespace {

using config::tree_kind;
using sampling::ranked_token;
/// The drafter's tokens below a path, best first.
using oracle = std::function<std::vector<ranked_token>(const std::vector<token_id>& path)>;

/// Grows a tree in the way of a drafter.
candidate_tree grow(const tree_shape& shape, const tree_bounds& bounds, const oracle& next,
                    std::vector<std::vector<expansion>>* expanded = nullptr) {
  candidate_tree candidates;
  for (std::uint32_t depth = 0;; ++depth) {
    const auto wanted = next_expansions(shape, candidates, bounds, depth);
    if (wanted.empty()) return candidates;
    if (expanded != nullptr) expanded->push_back(wanted);
    for (const expansion& one : wanted) {
      auto children = next(candidates.path_tokens(one.node));
      children.resize(std::min<std::size_t>(children.size(), one.num_children));
      weigh_among_siblings(shape, children);
      add_children(shape, candidates, one.node, children);
    }
  }
}

/// A fixed random distribution over `vocab` tokens below every path.
oracle random_oracle(std::uint32_t vocab, std::uint64_t seed) {
  return [=](const std::vector<token_id>& path) {
    std::uint64_t hash = seed;
    for (const token_id token : path) hash = hash * 31 + static_cast<std::uint64_t>(token.value) + 7;
    std::mt19937_64 random(hash);
    std::vector<ranked_token> tokens;
    double total = 0;
    for (std::uint32_t id = 0; id < vocab; ++id) {
      const double weight = std::pow(static_cast<double>(random() % 1000 + 1), 2.0);
      tokens.push_back({token_id{static_cast<std::int32_t>(id)}, static_cast<float>(weight)});
      total += weight;
    }
    for (ranked_token& one : tokens) one.weight = static_cast<float>(one.weight / total);
    std::stable_sort(tokens.begin(), tokens.end(),
                     [](const ranked_token& a, const ranked_token& b) { return a.weight > b.weight; });
    return tokens;
  };
}

tree_shape shape_of(tree_kind kind, std::uint32_t top_k) {
  tree_shape shape{.kind = kind, .top_k = top_k};
  if (kind == tree_kind::fixed) shape.paths = halving_template(top_k, 4, 20);
  return shape;
}

double expected_accepted(const candidate_tree& candidates, const std::vector<std::int32_t>& chosen) {
  double sum = 0;
  for (const std::int32_t node : chosen) sum += std::exp(candidates.confidence(node));
  return sum;
}

/// The largest sum of path probabilities of any tree with at most `nodes` nodes, by trying all divisions of
/// the nodes among the children of each place.
double best_of_all_trees(const oracle& next, std::uint32_t depth, std::uint32_t nodes, double above,
                         std::vector<token_id>& path) {
  if (depth == 0 || nodes == 0) return 0;
  const auto children = next(path);
  std::vector<double> best(nodes + 1, 0.0); // with the children tried so far
  for (const ranked_token& child : children) {
    const double prob = above * static_cast<double>(child.weight);
    path.push_back(child.token);
    std::vector<double> below(nodes);
    for (std::uint32_t n = 0; n < nodes; ++n) below[n] = best_of_all_trees(next, depth - 1, n, prob, path);
    path.pop_back();
    std::vector<double> with = best;
    for (std::uint32_t total = 1; total <= nodes; ++total)
      for (std::uint32_t own = 1; own <= total; ++own)
        with[total] = std::max(with[total], best[total - own] + prob + below[own - 1]);
    best = std::move(with);
  }
  return best[nodes];
}

TEST(tree_shape, the_optimal_tree_has_the_largest_expected_length_of_all_trees) {
  const std::uint64_t first_seed = 20;
  for (std::uint64_t seed = first_seed; seed < first_seed + 30; ++seed)
    for (const std::uint32_t nodes : {3U, 4U, 6U}) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << " nodes " << nodes);
      const oracle next = random_oracle(3, seed);
      const tree_bounds bounds{.depth = 3, .nodes = nodes};
      const tree_shape shape{.kind = tree_kind::optimal};
      const candidate_tree candidates = grow(shape, bounds, next);
      const auto chosen = chosen_nodes(shape, candidates, bounds);
      EXPECT_EQ(chosen.size(), nodes);
      std::vector<token_id> path;
      EXPECT_NEAR(expected_accepted(candidates, chosen), best_of_all_trees(next, 3, nodes, 1.0, path), 1e-5);
    }
}

TEST(tree_shape, an_optimal_tree_expands_only_what_is_among_the_best_so_far) {
  const oracle sure = [](const std::vector<token_id>&) {
    return std::vector<ranked_token>{{token_id{1}, 0.9F}, {token_id{2}, 0.05F}, {token_id{3}, 0.05F}};
  };
  std::vector<std::vector<expansion>> expanded;
  const tree_bounds bounds{.depth = 4, .nodes = 4};
  const auto candidates = grow({.kind = tree_kind::optimal}, bounds, sure, &expanded);
  EXPECT_EQ(tree_of(candidates, chosen_nodes({.kind = tree_kind::optimal}, candidates, bounds)).is_chain(),
            true);
  ASSERT_EQ(expanded.size(), 4U);
  EXPECT_EQ(expanded[1].size(), 3U) << "with four nodes to give, all three children are in so far";
  EXPECT_EQ(expanded[3].size(), 1U);
}

TEST(tree_shape, chosen_trees_are_closed_and_within_bounds_whatever_the_probabilities) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(::testing::Message() << "seed 5 round " << round);
    tree_shape shape{.kind = std::array{tree_kind::chain, tree_kind::fixed, tree_kind::dynamic,
                                        tree_kind::optimal, tree_kind::dart}[random() % 5],
                     .top_k = static_cast<std::uint32_t>(random() % 6 + 1)};
    const auto depth = static_cast<std::uint32_t>(random() % 6 + 1);
    const tree_bounds bounds{.depth = depth,
                             .nodes = depth + static_cast<std::uint32_t>(random() % (65 - depth))};
    if (shape.kind == tree_kind::fixed) shape.paths = halving_template(shape.top_k, 8, 40);
    const auto candidates = grow(shape, bounds, random_oracle(1 + random() % 8, random()));
    const auto chosen = chosen_nodes(shape, candidates, bounds);
    const token_tree tree = tree_of(candidates, chosen); // checks that parents are chosen
    EXPECT_TRUE(tree.valid());
    EXPECT_GT(tree.size(), 0U);
    EXPECT_LE(tree.size(), bounds.nodes);
    EXPECT_LT(*std::max_element(tree.depths().begin(), tree.depths().end()), depth);
    const bool full_chain = tree.is_chain() && tree.size() == depth;
    EXPECT_TRUE(full_chain || shape.kind != tree_kind::chain);
  }
}

TEST(tree_shape, a_dynamic_tree_expands_the_most_confident_nodes_of_a_level_and_reranks_all) {
  // Below "1" all children are certain, below "2" and "3" there are none.
  const oracle next = [](const std::vector<token_id>& path) {
    if (path.empty())
      return std::vector<ranked_token>{{token_id{1}, 0.5F}, {token_id{2}, 0.3F}, {token_id{3}, 0.2F}};
    if (path[0] == token_id{1})
      return std::vector<ranked_token>{{token_id{4}, 0.9F}, {token_id{5}, 0.06F}, {token_id{6}, 0.04F}};
    return std::vector<ranked_token>{{token_id{7}, 0.4F}, {token_id{8}, 0.3F}, {token_id{9}, 0.3F}};
  };
  const tree_shape shape{.kind = tree_kind::dynamic, .top_k = 2};
  const tree_bounds bounds{.depth = 3, .nodes = 4};
  std::vector<std::vector<expansion>> expanded;
  const auto candidates = grow(shape, bounds, next, &expanded);
  ASSERT_EQ(expanded.size(), 3U);
  EXPECT_EQ(expanded[0], (std::vector<expansion>{{token_tree::root, 2}}));
  EXPECT_EQ(expanded[1], (std::vector<expansion>{{0, 2}, {1, 2}}));
  // Depth 1: 1-4 at 0.45, 1-5 at 0.03, 2-7 at 0.12, 2-8 at 0.09.
  EXPECT_EQ(expanded[2], (std::vector<expansion>{{2, 2}, {4, 2}}));
  // The best four: 1 (0.5), 1-4 (0.45), 1-4-4 (0.405), 2 (0.3).
  const token_tree tree = tree_of(candidates, chosen_nodes(shape, candidates, bounds));
  EXPECT_EQ(std::vector(tree.tokens().begin(), tree.tokens().end()),
            (std::vector<token_id>{token_id{1}, token_id{2}, token_id{4}, token_id{4}}));
  EXPECT_EQ(std::vector(tree.parents().begin(), tree.parents().end()),
            (std::vector<std::int32_t>{-1, -1, 0, 2}));
}

TEST(tree_shape, a_dart_tree_expands_20_nodes_by_25_children_and_counts_deep_levels_less) {
  const tree_shape shape{.kind = tree_kind::dart};
  const tree_bounds bounds{.depth = 3, .nodes = 60};
  std::vector<std::vector<expansion>> expanded;
  const auto candidates = grow(shape, bounds, random_oracle(40, 11), &expanded);
  ASSERT_EQ(expanded.size(), 3U);
  EXPECT_EQ(expanded[0], (std::vector<expansion>{{token_tree::root, 25}}));
  for (const std::size_t depth : {1U, 2U}) {
    ASSERT_EQ(expanded[depth].size(), 20U);
    for (const expansion& one : expanded[depth]) EXPECT_EQ(one.num_children, 25U);
  }
  EXPECT_EQ(candidates.size(), 25U + 2 * 20 * 25);
  EXPECT_EQ(chosen_nodes(shape, candidates, bounds).size(), 60U);
  // Two children of 0.3 and 0.1 among others that are not theirs: shares 3/4 and 1/4.
  const oracle two = [](const std::vector<token_id>&) {
    return std::vector<ranked_token>{{token_id{1}, 0.3F}, {token_id{2}, 0.1F}};
  };
  const auto shares = grow(shape, bounds, two);
  const double first = std::log(0.75), second = 0.9 * std::pow(2, -0.7) * std::log(0.25);
  const double third = 0.81 * std::pow(3, -0.7) * std::log(0.75);
  EXPECT_NEAR(shares.confidence(0), first, 1e-6);
  EXPECT_NEAR(shares.confidence(3), first + second, 1e-6); // token 2 below token 1
  const auto level = shares.level(2);
  const auto below = std::ranges::find_if(
      level, [&](std::int32_t node) { return shares[node].parent == 3 && shares[node].rank == 0; });
  ASSERT_NE(below, level.end());
  EXPECT_NEAR(shares.confidence(*below), first + second + third, 1e-6);
}

TEST(tree_shape, a_dart_tree_scores_a_node_alike_however_few_nodes_it_has) {
  const tree_shape shape{.kind = tree_kind::dart};
  const auto many = grow(shape, {.depth = 3, .nodes = 60}, random_oracle(40, 5));
  const tree_bounds bounds{.depth = 3, .nodes = 4};
  const auto few = grow(shape, bounds, random_oracle(40, 5));
  ASSERT_EQ(few.size(), many.size());
  for (std::int32_t node = 0; node < static_cast<std::int32_t>(few.size()); ++node)
    ASSERT_EQ(few.confidence(node), many.confidence(node)) << node;
  EXPECT_EQ(chosen_nodes(shape, few, bounds).size(), 4U);
}

TEST(tree_shape, a_dart_tree_over_few_tokens_has_all_of_them) {
  const tree_shape shape{.kind = tree_kind::dart};
  const tree_bounds bounds{.depth = 3, .nodes = 60};
  const auto candidates = grow(shape, bounds, random_oracle(6, 8));
  EXPECT_EQ(candidates.level(0).size(), 6U);
  EXPECT_EQ(candidates.level(1).size(), 36U);
  EXPECT_EQ(candidates.level(2).size(), 120U) << "20 nodes are expanded";
  EXPECT_EQ(chosen_nodes(shape, candidates, bounds).size(), 60U);
  EXPECT_EQ(chosen_nodes(shape, grow(shape, {.depth = 1, .nodes = 60}, random_oracle(6, 8)),
                         {.depth = 1, .nodes = 60})
                .size(),
            6U)
      << "there are no more";
}

TEST(tree_shape, a_dart_tree_bounds_the_score_of_a_node_without_a_share) {
  const tree_shape shape{.kind = tree_kind::dart};
  const oracle next = [](const std::vector<token_id>&) {
    return std::vector<ranked_token>{{token_id{1}, 0.5F}, {token_id{2}, 1e-30F}, {token_id{3}, 0.0F}};
  };
  const auto candidates = grow(shape, {.depth = 1, .nodes = 3}, next);
  EXPECT_EQ(candidates.confidence(0), 0.0);
  EXPECT_NEAR(candidates.confidence(1), std::log(1e-10), 1e-6);
  EXPECT_NEAR(candidates.confidence(2), std::log(1e-10), 1e-6);
}

TEST(tree_shape, a_static_tree_is_its_template_cut_to_the_bounds) {
  tree_shape shape{.kind = tree_kind::fixed};
  shape.paths = parse_template(std::vector<std::string>{"0", "0.0", "1", "0.0.0", "0.1", "1.0"}).value();
  const oracle next = random_oracle(4, 1);
  const auto parents = [&](tree_bounds bounds) {
    const auto candidates = grow(shape, bounds, next);
    const token_tree tree = tree_of(candidates, chosen_nodes(shape, candidates, bounds));
    return std::vector(tree.parents().begin(), tree.parents().end());
  };
  EXPECT_EQ(parents({.depth = 3, .nodes = 6}), (std::vector<std::int32_t>{-1, -1, 0, 0, 1, 2}));
  EXPECT_EQ(parents({.depth = 3, .nodes = 3}), (std::vector<std::int32_t>{-1, -1, 0}));
  EXPECT_EQ(parents({.depth = 2, .nodes = 5}), (std::vector<std::int32_t>{-1, -1, 0, 0, 1}));
  EXPECT_EQ(parents({.depth = 1, .nodes = 5}), (std::vector<std::int32_t>{-1, -1}));
  EXPECT_EQ(parents({.depth = 0, .nodes = 5}), (std::vector<std::int32_t>{}));
}

TEST(tree_shape, a_template_that_is_no_tree_is_refused_by_name) {
  const auto message = [](std::vector<std::string> paths) { return parse_template(paths).error().message(); };
  EXPECT_NE(message({"0", "x"}).find("\"x\""), std::string::npos);
  EXPECT_NE(message({""}).find("\"\""), std::string::npos);
  EXPECT_NE(message({"0", "0."}).find("\"0.\""), std::string::npos);
  EXPECT_NE(message({"16"}).find("0 to 15"), std::string::npos);
  EXPECT_NE(message({"0.0"}).find("parent"), std::string::npos);
  EXPECT_NE(message({"1"}).find("sibling"), std::string::npos);
  EXPECT_NE(message({"0", "0"}).find("twice"), std::string::npos);
  EXPECT_NE(message(std::vector<std::string>(65, "0")).find("at most 64"), std::string::npos);
  EXPECT_TRUE(parse_template({}).value().empty());
}

TEST(tree_shape, a_halving_template_gets_narrower_by_level) {
  EXPECT_EQ(halving_template(1, 3, 64), (tree_template{{0}, {0, 0}, {0, 0, 0}}));
  EXPECT_EQ(halving_template(2, 2, 64), (tree_template{{0}, {1}, {0, 0}, {1, 0}}));
  EXPECT_EQ(halving_template(4, 9, 64).size(), 64U);
  EXPECT_EQ(halving_template(4, 9, 5), (tree_template{{0}, {1}, {2}, {3}, {0, 0}}));
}

TEST(tree_shape, places_for_draws_share_the_nodes_among_levels_and_go_to_the_likeliest) {
  const tree_shape shape{.kind = tree_kind::dynamic, .top_k = 4};
  const tree_bounds bounds{.depth = 3, .nodes = 8};
  candidate_tree candidates;
  std::vector<expansion> wanted{{token_tree::root, 4}};
  std::vector<std::vector<float>> weights{{0.6F, 0.2F, 0.1F, 0.1F}};
  plan_draws(shape, candidates, bounds, 0, wanted, weights);
  EXPECT_EQ(wanted[0].num_children, 3U) << "8 nodes on 3 levels";
  candidates.add_children(
      token_tree::root,
      std::vector<ranked_token>{{token_id{1}, 0.6F}, {token_id{2}, 0.2F}, {token_id{3}, 0.1F}});
  wanted = {{0, 4}, {1, 4}, {2, 4}};
  weights = {{0.5F, 0.5F}, {0.9F, 0.1F}, {1.0F}};
  plan_draws(shape, candidates, bounds, 1, wanted, weights);
  EXPECT_EQ(wanted, (std::vector<expansion>{{0, 2}, {1, 1}, {2, 0}}))
      << "0.3, 0.3 and 0.18 of 5 nodes on 2 levels";
  candidates.add_children(0, std::vector<ranked_token>{{token_id{1}, 0.5F}, {token_id{2}, 0.5F}});
  candidates.add_children(1, std::vector<ranked_token>{{token_id{1}, 0.9F}});
  wanted = {{3, 4}};
  weights = {{0.5F, 0.3F, 0.1F}};
  plan_draws(shape, candidates, bounds, 2, wanted, weights);
  EXPECT_EQ(wanted[0].num_children, 2U) << "what is left";
}

TEST(candidate_tree, a_path_is_never_more_confident_than_its_beginning) {
  candidate_tree candidates;
  const auto first = candidates.add_children(
      token_tree::root,
      std::vector<ranked_token>{{token_id{4}, 1.5F}, {token_id{5}, 0.25F}, {token_id{6}, 0.0F}});
  EXPECT_EQ(first, 0);
  EXPECT_EQ(candidates.confidence(0), 0.0);
  EXPECT_NEAR(candidates.confidence(1), std::log(0.25), 1e-12);
  EXPECT_TRUE(std::isfinite(candidates.confidence(2)));
  EXPECT_EQ(candidates.add_children(1, std::vector<ranked_token>{{token_id{7}, 0.5F}}), 3);
  EXPECT_NEAR(candidates.confidence(3), std::log(0.125), 1e-12);
  EXPECT_EQ(candidates.path_tokens(3), (std::vector<token_id>{token_id{5}, token_id{7}}));
  EXPECT_EQ(candidates.level(0), (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(candidates.level(1), (std::vector<std::int32_t>{3}));
  const std::vector<std::int32_t> all{0, 1, 2, 3};
  EXPECT_EQ(most_confident(candidates, all, 2), (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(most_confident(candidates, all, 3), (std::vector<std::int32_t>{0, 1, 3}));
}

/// Rule `optimal` counts these nodes, and leases have cells for them.
TEST(most_nodes, is_the_size_of_the_largest_tree_of_that_depth) {
  for (const auto kind : {tree_kind::chain, tree_kind::fixed, tree_kind::dynamic, tree_kind::optimal,
                          tree_kind::independent, tree_kind::dart})
    for (std::uint32_t depth = 1; depth <= 5; ++depth)
      for (const std::uint32_t nodes : {5U, 12U, 30U, 64U}) {
        const tree_shape shape = shape_of(kind, 3);
        const tree_bounds bounds{depth, nodes};
        const auto made = grow(shape, bounds, random_oracle(100, depth));
        EXPECT_EQ(most_nodes(shape, bounds), chosen_nodes(shape, made, bounds).size())
            << static_cast<int>(kind) << ", depth " << depth << ", at most " << nodes;
      }
  EXPECT_EQ(most_nodes({.kind = tree_kind::dynamic}, {0, 64}), 0U);
  EXPECT_EQ(most_nodes({.kind = tree_kind::dynamic, .top_k = 4}, {1, 64}), 4U);
  EXPECT_EQ(most_nodes({.kind = tree_kind::dynamic, .top_k = 4}, {2, 64}), 20U);
}

} // namespace
} // namespace paceline::speculation
