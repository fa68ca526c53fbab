#include "runtime/speculation/drafters/model_drafter.hpp"
#include "runtime/speculation/drafters/registry.hpp"
#include "runtime/speculation/verification/verification.hpp"
#include "tests/runtime/speculation/drafters/drafted_request.hpp"
#include "tests/support/simulated_decoding.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>

namespace paceline::speculation {
namespace {

using config::tree_kind;
using test_support::counted_model;
using test_support::drafted_request;

constexpr std::uint32_t vocab = 40;
constexpr std::array tree_kinds{tree_kind::chain,   tree_kind::fixed,       tree_kind::dynamic,
                                tree_kind::optimal, tree_kind::independent, tree_kind::dart};

std::unique_ptr<drafter> make_drafter(tree_kind kind, std::shared_ptr<const model::language_model> model,
                                      std::uint32_t max_nodes = 12, bool greedy = false,
                                      const std::string& name = "model") {
  drafter_parts parts{.options = test::options_of("small", name), .own_model = std::move(model)};
  parts.options.tree = kind;
  parts.options.tree_top_k = 3;
  parts.options.max_tree_nodes = max_nodes;
  if (greedy) parts.options.token_choice = config::draft_sampling::greedy;
  parts.target_vocab_size = vocab;
  return drafter_registry::with_built_in().make(parts).value();
}

/// The expected tree, computed from the tokens alone.
token_tree expected_tree(const drafted_request& one, const tree_shape& shape, std::uint32_t nodes,
                         bool greedy) {
  const model::hash_model oracle({.vocab_size = vocab});
  const tree_bounds bounds{.depth = one.draft_length, .nodes = nodes};
  candidate_tree candidates;
  for (std::uint32_t depth = 0;; ++depth) {
    const auto wanted = next_expansions(shape, candidates, bounds, depth);
    if (wanted.empty()) return tree_of(candidates, chosen_nodes(shape, candidates, bounds));
    for (const auto& [node, count] : wanted) {
      const auto path = candidates.path_tokens(node);
      auto logits = one.logits_below(oracle, path);
      std::vector<sampling::ranked_token> best;
      if (greedy)
        one.pipeline.rank_likeliest(logits, one.row_below(path), count, best);
      else
        one.pipeline.rank_choices(logits, one.row_below(path), count, best);
      weigh_among_siblings(shape, best);
      add_children(shape, candidates, node, best);
    }
  }
}

bool same(const token_tree& a, const token_tree& b) {
  return std::equal(a.tokens().begin(), a.tokens().end(), b.tokens().begin(), b.tokens().end()) &&
         std::equal(a.parents().begin(), a.parents().end(), b.parents().begin(), b.parents().end());
}

/// Whatever part of a tree is committed, the next tree is computed from the right cells: a hash model reads
/// all of them, so a wrong cell would change the tree.
TEST(model_tree, every_tree_is_that_of_the_tokens_alone) {
  std::mt19937_64 random(21);
  for (const tree_kind kind : tree_kinds)
    for (const bool greedy : {false, true})
      for (const float temperature : {0.0F, 1.0F}) {
        SCOPED_TRACE(::testing::Message() << "seed 21 kind " << static_cast<int>(kind) << " greedy " << greedy
                                          << " temperature " << temperature);
        auto own = std::make_shared<counted_model>(model::hash_model_config{.vocab_size = vocab});
        const auto made = make_drafter(kind, own, 12, greedy);
        drafted_request one(*made, {.temperature = temperature, .repetition_penalty = 1.2F, .seed = 4}, 9,
                            vocab);
        tree_shape shape{.kind = kind, .top_k = 3};
        if (kind == tree_kind::fixed) shape.paths = halving_template(3, 5, 12);
        for (int round = 0; round < 25; ++round) {
          SCOPED_TRACE(round);
          one.draft_length = 1 + static_cast<std::uint32_t>(random() % 5);
          const draft proposal = one.propose();
          const std::uint32_t nodes = kind == tree_kind::chain ? one.draft_length : 12;
          const token_tree right = expected_tree(one, shape, nodes, greedy || temperature == 0.0F);
          ASSERT_TRUE(same(proposal.tree, right)) << proposal.tree.size() << " and " << right.size();
          ASSERT_TRUE(proposal.probs.empty());
          one.commit_some(proposal, random, vocab);
        }
      }
}

TEST(model_tree, what_is_committed_is_not_computed_again) {
  auto own = std::make_shared<counted_model>(model::hash_model_config{.vocab_size = vocab});
  const auto made = make_drafter(tree_kind::fixed, own);
  drafted_request one(*made, {.seed = 4}, 9, vocab);
  const draft proposal = one.propose(); // 3 nodes, below each 1, and so on
  EXPECT_EQ(own->rows_of_passes, (std::vector<std::size_t>{9, 3, 3, 3}));
  ASSERT_EQ(proposal.tree.size(), 12U);
  // Along the third branch, whose cells are between those of others.
  const auto leaf = static_cast<std::int32_t>(proposal.tree.size()) - 1;
  std::vector<token_id> path;
  for (const std::int32_t node : proposal.tree.path_to(leaf))
    path.push_back(proposal.tree.tokens()[static_cast<std::size_t>(node)]);
  ASSERT_EQ(path.size(), 4U);
  path.push_back(token_id{1});
  one.commit(path);
  own->rows_of_passes.clear();
  one.propose();
  EXPECT_EQ(own->rows_of_passes.front(), 2U) << "the leaf, which was never fed, and the newest token";
}

TEST(model_tree, drafts_fit_the_lease_and_the_nodes_asked_for) {
  for (const tree_kind kind : tree_kinds)
    for (std::uint32_t num_blocks = 1; num_blocks < 8; ++num_blocks)
      for (const std::uint32_t nodes : {4U, 7U, 64U})
        for (const auto rule : {verification_rule::coupled, verification_rule::rejection}) {
          auto own = std::make_shared<counted_model>(model::hash_model_config{.vocab_size = vocab});
          const auto made = make_drafter(kind, own, 64);
          drafted_request one(*made, {.seed = 8}, 6, vocab, num_blocks);
          one.max_nodes = nodes;
          one.rule = rule;
          const draft proposal = one.propose(); // a row outside the lease would read beyond the block table
          EXPECT_LE(proposal.tree.size(), kind == tree_kind::chain ? 4U : nodes);
          EXPECT_EQ(proposal.tree.empty(), num_blocks < 2);
          EXPECT_TRUE(validate_draft(proposal, vocab, 4));
        }
}

TEST(model_tree, under_rejection_every_node_reports_what_it_was_drawn_from) {
  std::mt19937_64 random(23);
  const model::hash_model oracle({.vocab_size = vocab});
  for (const tree_kind kind : tree_kinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    auto own = std::make_shared<counted_model>(model::hash_model_config{.vocab_size = vocab});
    const auto made = make_drafter(kind, own);
    drafted_request one(*made, {.seed = 6}, 9, vocab);
    one.rule = verification_rule::rejection;
    for (int round = 0; round < 10; ++round) {
      const draft proposal = one.propose();
      const token_tree& tree = proposal.tree;
      ASSERT_FALSE(tree.empty());
      ASSERT_EQ(proposal.probs.size(), tree.size());
      ASSERT_TRUE(validate_draft(proposal, vocab, one.draft_length));
      for (std::int32_t node = 0; node < static_cast<std::int32_t>(tree.size()); ++node) {
        std::vector<token_id> path;
        for (const std::int32_t above : tree.path_to(node))
          path.push_back(tree.tokens()[static_cast<std::size_t>(above)]);
        path.pop_back();
        auto logits = one.logits_below(oracle, path);
        ASSERT_TRUE(one.pipeline.process(logits, one.row_below(path)));
        draft_distribution left = truncated_distribution(logits);
        double total = 1;
        for (std::int32_t sibling = 0; sibling < node; ++sibling) {
          if (kind == tree_kind::independent || tree.parents()[static_cast<std::size_t>(sibling)] !=
                                                    tree.parents()[static_cast<std::size_t>(node)])
            continue;
          const auto at = std::find(left.tokens.begin(), left.tokens.end(),
                                    tree.tokens()[static_cast<std::size_t>(sibling)]) -
                          left.tokens.begin();
          ASSERT_LT(static_cast<std::size_t>(at), left.tokens.size()) << "drawn twice";
          total -= static_cast<double>(left.probs[static_cast<std::size_t>(at)]);
          left.tokens.erase(left.tokens.begin() + at);
          left.probs.erase(left.probs.begin() + at);
        }
        const draft_distribution& said = proposal.probs[static_cast<std::size_t>(node)];
        ASSERT_EQ(said.tokens, left.tokens);
        for (std::size_t i = 0; i < left.probs.size(); ++i)
          ASSERT_NEAR(said.probs[i], static_cast<double>(left.probs[i]) / total, 1e-5);
      }
      one.commit_some(proposal, random, vocab);
    }
  }
}

/// Chains from one position: the requested number, with independent noise; sometimes two have the same first
/// token.
TEST(model_tree, independent_chains_share_the_root_only) {
  auto own = std::make_shared<counted_model>(model::hash_model_config{.vocab_size = vocab});
  const auto made = make_drafter(tree_kind::independent, own, 64);
  int num_alike = 0, num_same = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    drafted_request one(*made, {.seed = seed}, 9, vocab);
    one.rule = verification_rule::rejection;
    const draft proposal = one.propose();
    const token_tree& tree = proposal.tree;
    ASSERT_EQ(tree.size(), 3U * one.draft_length);
    EXPECT_EQ(proposal.plan.levels, one.draft_length);
    const auto first = tree.children(token_tree::root);
    ASSERT_EQ(first.size(), 3U);
    for (std::int32_t node = 0; node < static_cast<std::int32_t>(tree.size()); ++node)
      EXPECT_LE(tree.children(node).size(), 1U);
    if (tree.tokens()[0] != tree.tokens()[1]) continue;
    ++num_alike; // the following tokens are drawn independently
    const auto below = [&](std::int32_t node) {
      return tree.tokens()[static_cast<std::size_t>(tree.children(node).front())];
    };
    num_same += below(0) == below(1) ? 1 : 0;
  }
  EXPECT_GT(num_alike, 10);
  EXPECT_LT(num_same, num_alike);
}

TEST(model_tree, greedy_drafts_are_certain_under_any_rule) {
  auto own = std::make_shared<counted_model>(model::hash_model_config{.vocab_size = vocab});
  const auto made = make_drafter(tree_kind::dynamic, own, 12, true);
  drafted_request one(*made, {.seed = 6}, 9, vocab);
  const token_tree coupled = one.propose().tree;
  one.rule = verification_rule::rejection;
  const draft rejection = one.propose();
  EXPECT_TRUE(rejection.probs.empty());
  EXPECT_TRUE(same(coupled, rejection.tree));
}

TEST(model_tree, siblings_are_drawn_without_replacement_in_the_law_of_their_order) {
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
TEST(model_tree, drawn_children_follow_their_distribution_whatever_the_shape) {
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
TEST(model_tree, drawn_trees_leave_the_targets_law_to_rule_rejection) {
  constexpr std::uint64_t num_draws = 30000;
  const model::hash_model target({.vocab_size = small_vocab, .sharpness = 3.0F});
  for (const tree_kind kind : tree_kinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    const auto made = make_other_drafter(kind);
    pair_counts seen;
    for (std::uint64_t seed = 0; seed < num_draws; ++seed) ++seen[first_two_tokens(target, *made, seed)];
    expect_the_targets_law(seen, num_draws, target, drafted_request(*made, {}, 3, small_vocab, 8));
  }
}

TEST(model_tree, decoding_with_trees_gives_the_tokens_of_plain_decoding) {
  const model::hash_model target({.vocab_size = vocab});
  for (const tree_kind kind : tree_kinds)
    for (const std::uint64_t salt : {0, 3}) // the same model, and another one
      for (const float temperature : {0.0F, 1.0F}) {
        SCOPED_TRACE(::testing::Message() << static_cast<int>(kind) << " " << salt << " " << temperature);
        const auto made = make_drafter(kind, std::make_shared<model::hash_model>(model::hash_model_config{
                                                 .vocab_size = vocab, .salt = salt}));
        std::vector<generation_request> requests(3);
        for (std::size_t i = 0; i < requests.size(); ++i) {
          for (std::size_t t = 0; t < 4 + 5 * i; ++t)
            requests[i].prompt.push_back(token_id{static_cast<std::int32_t>((t * 7 + i) % vocab)});
          requests[i].sampling.temperature = temperature;
          requests[i].sampling.seed = 50 + i;
          requests[i].stop.max_tokens = 40;
        }
        const auto outputs = test::decode_speculatively(target, *made, requests);
        for (std::size_t i = 0; i < requests.size(); ++i) {
          EXPECT_EQ(outputs[i].tokens, test::decode_plainly(target, requests[i]));
          // The target's own token is ranked first by the same model, so some path is fully accepted.
          if (salt == 0 && kind == tree_kind::fixed) {
            EXPECT_LE(outputs[i].num_rounds, 40U / 5 + 3) << "four levels and a bonus token a round";
          }
        }
      }
}

} // namespace
} // namespace paceline::speculation
