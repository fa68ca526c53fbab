#include "runtime/speculation/drafters/draft_lane.hpp"
#include "runtime/speculation/drafters/model_drafter.hpp"
#include "runtime/speculation/drafters/registry.hpp"
#include "tests/runtime/speculation/drafters/drafted_request.hpp"
#include "tests/support/simulated_decoding.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace paceline::speculation::model_tree_test {
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

/// Two levels of a head that drafts all levels at once. Its rows prefer low tokens.
struct lane_of_equal_rows {
  explicit lane_of_equal_rows(const sampling_params& params) : sampling(params, {}) {
    task.tokens = text, task.sampling = &sampling, task.counts = &counts, task.prompt_length = 2;
    lane.task = &task;
    lane.bounds = {.depth = 2, .nodes = 60};
    lane.has_equal_rows = true;
  }

  void grow(const tree_shape& shape) {
    std::vector<float> scores;
    for (const std::uint32_t depth : {0U, 1U}) {
      lane.wanted = next_expansions(shape, lane.candidates, lane.bounds, depth);
      add_candidates(lane, shape, [&](std::size_t) {
        ++num_rows_read;
        scores.clear();
        for (int i = 0; i < 30; ++i)
          scores.push_back(-4.0F * static_cast<float>(i)); // the last have no share
        return std::span(scores);
      });
    }
  }

  std::vector<token_id> text{token_id{1}, token_id{2}};
  sampling::pipeline sampling;
  sampling::token_counts counts;
  draft_task task{};
  draft_lane lane;
  std::uint32_t num_rows_read = 0;
};

/// A step of a beam search of width w may continue with w children of one token.
TEST(model_tree, below_hypotheses_a_drafter_whose_shape_is_not_configured_drafts_trees) {
  const auto model = std::make_shared<counted_model>(model::hash_model_config{.vocab_size = vocab});
  const auto drafted = [&](tree_kind kind, std::uint32_t beam_width) {
    const auto drafter = make_drafter(kind, model);
    drafted_request one(*drafter, {.temperature = 0}, 10, vocab);
    one.beam_width = beam_width;
    const token_tree tree = one.propose().tree;
    const bool widens = kind == tree_kind::by_kind && beam_width > 1;
    EXPECT_TRUE(
        same(tree, expected_tree(one, widens ? widened(beam_width) : tree_shape{}, widens ? 12 : 4, false)))
        << beam_width;
    return tree;
  };
  EXPECT_EQ(drafted(tree_kind::by_kind, 3).size(), 12U);
  EXPECT_EQ(drafted(tree_kind::by_kind, 0).size(), 4U) << "a text";
  EXPECT_EQ(drafted(tree_kind::by_kind, 1).size(), 4U) << "has no siblings to continue with";
  EXPECT_EQ(drafted(tree_kind::chain, 3).size(), 4U) << "configured";
}

TEST(model_tree, a_row_is_ranked_once_for_nodes_with_different_numbers_of_children) {
  const tree_shape shape{.kind = tree_kind::fixed,
                         .paths = {{0}, {1}, {2}, {0, 0}, {1, 0}, {1, 1}, {1, 2}, {2, 0}, {2, 1}}};
  const auto drafted = [&](const sampling_params& params, std::uint32_t num_rows_read) {
    lane_of_equal_rows one(params);
    one.grow(shape);
    EXPECT_EQ(one.num_rows_read, num_rows_read);
    finish_draft(one.lane, shape);
    return one.task.result.tree;
  };
  token_tree expected;
  for (int token : {0, 1, 2}) expected.add(token_id{token}, token_tree::root);
  for (const auto& [parent, token] : {std::pair{0, 0}, {1, 0}, {1, 1}, {1, 2}, {2, 0}, {2, 1}})
    expected.add(token_id{token}, parent);
  EXPECT_TRUE(same(drafted({.temperature = 0}, 2), expected));
  // Penalties depend on a node's path, so each node has a ranking of its own.
  EXPECT_TRUE(same(drafted({.temperature = 0, .presence_penalty = 0.5F}, 4), expected));
  EXPECT_FALSE(same(drafted({.temperature = 0, .presence_penalty = 5}, 4), expected));
}

TEST(model_tree, nodes_of_a_dart_tree_that_share_a_row_score_their_children_alike) {
  lane_of_equal_rows one({.temperature = 0});
  one.grow({.kind = tree_kind::dart});
  const draft_lane& lane = one.lane;
  ASSERT_EQ(lane.candidates.size(), 25U + 20 * 25);
  for (const std::int32_t node : lane.candidates.level(1)) {
    const auto& child = lane.candidates[node];
    const auto& cousin = lane.candidates[25 + static_cast<std::int32_t>(child.rank)];
    EXPECT_NEAR(child.confidence - lane.candidates.confidence(child.parent),
                cousin.confidence - lane.candidates.confidence(cousin.parent), 1e-9)
        << "child " << child.rank << " of " << child.parent;
  }
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

/// The choice of "auto" looks at the plan of a drawn draft alone, so nothing that was drawn may show in it.
TEST(model_tree, the_plan_of_a_drawn_draft_is_what_was_asked_for) {
  constexpr std::uint32_t max_nodes = 12;
  for (const tree_kind kind : tree_kinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    const auto made = make_drafter(
        kind, std::make_shared<counted_model>(model::hash_model_config{.vocab_size = vocab}), max_nodes);
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      drafted_request one(*made, {.seed = seed}, 9, vocab);
      one.rule = verification_rule::rejection;
      const draft proposal = one.propose();
      ASSERT_FALSE(proposal.probs.empty());
      EXPECT_EQ(proposal.plan.levels, one.draft_length);
      EXPECT_EQ(proposal.plan.nodes, kind == tree_kind::chain ? one.draft_length : max_nodes);
      EXPECT_LE(proposal.tree.size(), proposal.plan.nodes);
    }
  }
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
} // namespace paceline::speculation::model_tree_test
