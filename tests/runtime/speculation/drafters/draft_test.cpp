#include "runtime/speculation/drafters/draft.hpp"

#include "tests/support/statistics.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

namespace paceline::speculation {
namespace {

TEST(draft, a_distribution_keeps_the_likeliest_64_and_sums_to_one) {
  std::vector<float> scores(1000);
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = -0.01F * static_cast<float>((i * 37) % 1000);
  const draft_distribution from = truncated_distribution(scores);
  ASSERT_EQ(from.tokens.size(), 64U);
  ASSERT_EQ(from.probs.size(), 64U);
  double sum = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    sum += static_cast<double>(from.probs[i]);
    EXPECT_GE(scores[static_cast<std::size_t>(from.tokens[i].value)], -0.635F);
    EXPECT_LE(from.probs[i], from.probs[i > 0 ? i - 1 : 0]);
  }
  EXPECT_NEAR(sum, 1.0, 1e-6);
  const std::vector<float> certain{-std::numeric_limits<float>::infinity(), 0.0F};
  EXPECT_EQ(truncated_distribution(certain).tokens, (std::vector<token_id>{token_id{1}}));
}

TEST(draft, tokens_are_drawn_in_proportion_to_the_stored_probabilities) {
  const draft_distribution from{.tokens = {token_id{7}, token_id{3}, token_id{900}, token_id{4}},
                                .probs = {0.5F, 0.25F, 0.25F, 0.0F}};
  std::vector<std::uint64_t> counts(4);
  for (std::uint32_t i = 0; i < 1000000; ++i) {
    const token_id token =
        draw(from, {.seed = 9, .position = token_position{i}, .purpose = noise_purpose::draft});
    ++counts[token.value == 7 ? 0 : token.value == 3 ? 1 : token.value == 900 ? 2 : 3];
  }
  const auto fit = test::compare(counts, std::vector<double>{0.5, 0.25, 0.25, 0.0});
  EXPECT_TRUE(fit.accepted()) << fit.chi_square << " of " << fit.chi_square_limit;
}

TEST(draft, equal_siblings_are_valid) {
  draft proposal;
  const draft_distribution from{.tokens = {token_id{1}, token_id{5}}, .probs = {0.5F, 0.5F}};
  for (int i = 0; i < 3; ++i) {
    proposal.tree.add(token_id{5}, token_tree::root);
    proposal.probs.push_back(from);
  }
  proposal.tree.add(token_id{1}, 2);
  proposal.probs.push_back(from);
  EXPECT_TRUE(validate_draft(proposal, 10, 2));
  EXPECT_EQ(proposal.tree.children(token_tree::root), (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(proposal.tree.children(2), (std::vector<std::int32_t>{3}));
  EXPECT_TRUE(proposal.tree.children(3).empty());
}

TEST(draft, one_from_elsewhere_is_refused_with_the_rule_it_breaks) {
  const auto good = [] {
    draft proposal;
    proposal.tree.add(token_id{1}, token_tree::root);
    proposal.tree.add(token_id{2}, 0);
    proposal.probs = {{.tokens = {token_id{1}, token_id{5}}, .probs = {0.5F, 0.5F}},
                      {.tokens = {token_id{2}}, .probs = {1.0F}}};
    return proposal;
  };
  EXPECT_TRUE(validate_draft(good(), 10, 2));
  EXPECT_TRUE(validate_draft({}, 10, 0));
  const std::vector<std::pair<std::string, std::function<void(draft&)>>> cases{
      {"not in the vocabulary",
       [](draft& d) {
         d.tree.add(token_id{10}, token_tree::root);
         d.probs.clear();
       }},
      {"not in the vocabulary",
       [](draft& d) {
         d.tree.add(token_id{-1}, token_tree::root);
         d.probs.clear();
       }},
      {"deeper than",
       [](draft& d) {
         d.tree.add(token_id{3}, 1);
         d.probs.clear();
       }},
      {"one distribution a node", [](draft& d) { d.probs.pop_back(); }},
      {"as many probabilities", [](draft& d) { d.probs[0].probs.pop_back(); }},
      {"1 to 64", [](draft& d) { d.probs[0] = {}; }},
      {"not in the vocabulary", [](draft& d) { d.probs[0].tokens[1] = token_id{10}; }},
      {"[0, 1]", [](draft& d) { d.probs[0].probs[1] = std::numeric_limits<float>::quiet_NaN(); }},
      {"[0, 1]",
       [](draft& d) {
         d.probs[0].probs = {1.5F, -0.5F};
       }},
      {"twice", [](draft& d) { d.probs[0].tokens[1] = token_id{1}; }},
      {"sum to 1", [](draft& d) { d.probs[0].probs[1] = 0.25F; }},
      {"probability 0", [](draft& d) { d.probs[0].tokens[0] = token_id{6}; }},
  };
  for (const auto& [rule, spoil] : cases) {
    draft proposal = good();
    spoil(proposal);
    const auto result = validate_draft(proposal, 10, 2);
    ASSERT_FALSE(result) << rule;
    EXPECT_NE(result.error().message().find(rule), std::string::npos) << result.error().message();
  }
}

/// A chain of three nodes with a chain of two probes, and one probe below the second node.
draft with_probes() {
  draft proposal;
  for (int i = 0; i < 3; ++i) {
    proposal.tree.add(token_id{i}, i - 1);
    proposal.probs.push_back({{token_id{i}}, {1.0F}});
  }
  proposal.add_probe(token_id{7}, token_tree::root);
  proposal.add_probe(token_id{8}, 3);
  proposal.add_probe(token_id{9}, 1);
  return proposal;
}

TEST(draft, probes_lie_behind_the_tree_and_below_any_row) {
  const draft proposal = with_probes();
  EXPECT_EQ(proposal.num_rows(), 6U);
  EXPECT_EQ(proposal.path_to(4), (std::vector<std::int32_t>{3, 4}));
  EXPECT_EQ(proposal.path_to(5), (std::vector<std::int32_t>{0, 1, 5}));
  EXPECT_EQ(proposal.probes[2].depth, 2U);
  EXPECT_TRUE(validate_draft(proposal, 10, 3, 3));
}

TEST(draft, keeps_probes_below_nodes_that_stay) {
  const auto both = part_of(with_probes(), {true, true, false});
  ASSERT_EQ(both.probes.size(), 3U);
  EXPECT_EQ(both.path_to(4), (std::vector<std::int32_t>{0, 1, 4}));
  const auto first = part_of(with_probes(), {true, false, false});
  EXPECT_EQ(first.probes.size(), 2U) << "the third hung below a node that is gone";
  EXPECT_EQ(first.path_to(2), (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(part_of(with_probes(), {false, false, false}).num_rows(), 0U);
  const auto alone = part_of(with_probes(), {false, false, false}, true);
  EXPECT_TRUE(alone.tree.empty());
  ASSERT_EQ(alone.probes.size(), 2U);
  EXPECT_EQ(alone.path_to(1), (std::vector<std::int32_t>{0, 1}));
}

TEST(draft, probes_go_first) {
  const draft proposal = with_probes();
  auto shorter = proposal;
  shorter.truncate(4);
  EXPECT_EQ(shorter.probes.size(), 1U);
  EXPECT_EQ(shorter.probs.size(), 3U);
  shorter.truncate(2);
  EXPECT_TRUE(shorter.probes.empty());
  EXPECT_EQ(shorter.tree.size(), 2U);
  EXPECT_EQ(shorter.probs.size(), 2U);
}

TEST(draft, probes_may_reach_further_than_the_draft_and_need_no_distribution) {
  draft proposal;
  proposal.tree.add(token_id{1}, token_tree::root);
  for (int i = 0; i < 3; ++i) proposal.add_probe(token_id{2}, i == 0 ? token_tree::root : i);
  proposal.probs = {{{token_id{1}}, {1.0F}}};
  EXPECT_TRUE(validate_draft(proposal, 10, 1, 3));
  EXPECT_FALSE(validate_draft(proposal, 10, 1)) << "deeper than allowed";
  EXPECT_FALSE(validate_draft(proposal, 10, 1, 2));
  proposal.probes[1].parent = 2;
  EXPECT_FALSE(validate_draft(proposal, 10, 1, 3)) << "its own parent";
  draft many;
  many.tree.add(token_id{1}, token_tree::root);
  for (std::uint32_t i = 1; i < draft::max_rows; ++i) many.add_probe(token_id{2}, token_tree::root);
  EXPECT_TRUE(validate_draft(many, 10, 1, 3));
  many.add_probe(token_id{2}, token_tree::root);
  EXPECT_FALSE(validate_draft(many, 10, 1, 3)) << "193 rows";
}

} // namespace
} // namespace paceline::speculation
