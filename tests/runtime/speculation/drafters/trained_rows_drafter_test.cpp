// Kinds "pass" and "ppd": which rows a pass contains, and how the target's answers are used.
#include "runtime/speculation/drafters/trained_trees.hpp"
#include "tests/support/draft_tasks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace paceline::speculation {
namespace {

using namespace test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int32_t first_input = 1000; ///< behind the vocabulary and another drafter's inputs

drafter_parts parts_of(const std::string& kind, std::uint32_t num_rows = 3) {
  drafter_parts parts{.options = options_of("d", kind)};
  parts.target_vocab_size = 900;
  parts.first_input = token_id{first_input};
  auto inputs = std::make_shared<model::lookahead_inputs>();
  inputs->num_rows = num_rows, inputs->width = 1;
  inputs->values.resize(num_rows);
  parts.own_inputs = std::move(inputs);
  return parts;
}

std::unique_ptr<drafter> made(const drafter_parts& parts) {
  auto drafter = drafter_registry::with_built_in().make(parts);
  if (!drafter) throw std::runtime_error(drafter.error().message());
  return *std::move(drafter);
}
std::string problem(const drafter_parts& parts) {
  const auto drafter = drafter_registry::with_built_in().make(parts);
  return drafter ? "was accepted" : drafter.error().message();
}

/// The probes after each node, as numbers of inputs, each chain in its order.
std::map<std::int32_t, ids> groups_of(const draft& carrier) {
  std::map<std::int32_t, ids> groups;
  std::map<std::int32_t, std::int32_t> node_of; // by row
  for (std::size_t i = 0; i < carrier.probes.size(); ++i) {
    const probe& one = carrier.probes[i];
    const bool is_first = one.parent < static_cast<std::int32_t>(carrier.tree.size());
    const std::int32_t node = is_first ? one.parent : node_of[one.parent];
    node_of[static_cast<std::int32_t>(carrier.tree.size() + i)] = node;
    groups[node].push_back(one.token.value - first_input);
  }
  return groups;
}

/// The target's answers. The best tokens after a row are 10 times its number and the following ones.
round_feedback answered(draft verified, std::uint32_t base, std::vector<std::int32_t> accepted,
                        std::uint32_t num_top) {
  round_feedback round{.verified = std::move(verified), .accepted_path = std::move(accepted)};
  round.verified.base_length = base;
  round.num_top = num_top;
  for (std::uint32_t row = 0; row <= round.verified.num_rows(); ++row)
    for (std::uint32_t rank = 0; rank < num_top; ++rank)
      round.top_tokens.emplace_back(static_cast<std::int32_t>(10 * row + rank));
  return round;
}

TEST(pass_drafter, asks_in_one_round_and_drafts_in_the_next) {
  const auto drafter = made(parts_of("pass"));
  EXPECT_EQ(drafter->traits().where, placement::in_pass);
  EXPECT_EQ(drafter->traits().top_tokens, 1U);
  EXPECT_EQ(drafter->max_nodes(4), 4U);
  EXPECT_EQ(drafter->max_probes(), 3U);
  drafted_request request(*drafter);
  auto asking = request.propose({5, 6}, 4);
  EXPECT_TRUE(asking.tree.empty());
  EXPECT_EQ(groups_of(asking), (std::map<std::int32_t, ids>{{-1, {0, 1, 2}}}));
  EXPECT_EQ(asking.probes[2].depth, 2U);
  request.last_round = answered(asking, 2, {}, 1); // row 0 is the newest token's
  auto drafted = request.propose({5, 6, 7}, 4);
  EXPECT_EQ(values_of(drafted.tree.tokens()), (ids{10, 20, 30}));
  EXPECT_TRUE(drafted.tree.is_chain());
  EXPECT_TRUE(drafted.probs.empty()) << "certain";
  EXPECT_TRUE(drafted.probes.empty());
  request.last_round = answered(drafted, 3, {0}, 0);
  EXPECT_EQ(groups_of(request.propose({5, 6, 7, 10, 8}, 2)), (std::map<std::int32_t, ids>{{-1, {0, 1}}}))
      << "no more than can be drafted";
}

TEST(pass_drafter, takes_no_answers_of_another_round_or_drafter) {
  const auto drafter = made(parts_of("pass"));
  drafted_request request(*drafter);
  const auto asking = request.propose({5, 6}, 4);
  request.last_round = answered(asking, 2, {}, 1);
  EXPECT_TRUE(request.propose({5, 6, 7, 8}, 4).tree.empty()) << "a round later";
  draft others;
  others.add_probe(token_id{first_input - 3}, token_tree::root);
  others.add_probe(token_id{first_input - 2}, 0);
  request.last_round = answered(others, 2, {}, 1);
  EXPECT_TRUE(request.propose({5, 6, 7}, 4).tree.empty());
  auto cut = asking;
  cut.truncate(2);
  request.last_round = answered(cut, 2, {}, 1);
  EXPECT_EQ(request.propose({5, 6, 7}, 4).tree.size(), 2U) << "what is known";
  request.last_round = answered(asking, 2, {}, 1);
  request.last_round->top_tokens[2] = token_id{-1};
  EXPECT_EQ(request.propose({5, 6, 7}, 4).tree.size(), 1U) << "a row without a finite logit";
}

TEST(ppd_drafter, has_rows_behind_every_node_and_takes_those_of_the_last_accepted_one) {
  auto parts = parts_of("ppd");
  parts.options.tree = config::tree_kind::fixed;
  parts.options.tree_paths = {"0", "1", "0.0", "0.1", "0.0.0"};
  const auto drafter = made(parts);
  EXPECT_EQ(drafter->traits().top_tokens, 2U);
  EXPECT_EQ(drafter->max_nodes(4), 5U);
  EXPECT_EQ(drafter->max_probes(), 3U + 3 + 2 + 3 + 2 + 3);
  drafted_request request(*drafter);
  const auto first = request.propose({5, 6}, 4);
  EXPECT_EQ(groups_of(first), (std::map<std::int32_t, ids>{{-1, {0, 1, 2}}}));
  request.last_round = answered(first, 2, {}, 2);
  const auto second = request.propose({5, 6, 7}, 4);
  EXPECT_EQ(values_of(second.tree.tokens()), (ids{10, 11, 20, 21, 30}));
  EXPECT_EQ(std::vector(second.tree.parents().begin(), second.tree.parents().end()), (ids{-1, -1, 0, 0, 2}));
  const std::map<std::int32_t, ids> groups{{-1, {0, 1, 2}}, {0, {0, 1, 2}}, {1, {0, 1}},
                                           {2, {0, 1, 2}},  {3, {0, 1}},    {4, {0, 1, 2}}};
  EXPECT_EQ(groups_of(second), groups);
  request.last_round = answered(second, 3, {1}, 2); // node 1 has rows 5 + 3 + 3 and 5 + 3 + 4
  const auto third = request.propose({5, 6, 7, 11, 9}, 4);
  EXPECT_EQ(values_of(third.tree.tokens()), (ids{120, 121, 130, 131})) << "two levels are known";
}

TEST(ppd_drafter, nodes_come_before_rows_where_there_is_little_room) {
  auto parts = parts_of("ppd");
  parts.options.tree = config::tree_kind::chain;
  const auto drafter = made(parts);
  drafted_request request(*drafter);
  request.last_round = answered(request.propose({5, 6}, 4), 2, {}, 1);
  request.max_rows = 7;
  const auto draft = request.propose({5, 6, 7}, 4);
  EXPECT_EQ(draft.tree.size(), 3U);
  EXPECT_EQ(groups_of(draft), (std::map<std::int32_t, ids>{{-1, {0, 1, 2}}, {0, {0}}}));
  parts.options.tree = config::tree_kind::fixed;
  parts.options.tree_paths = {"0", "1", "0.0"};
  parts.options.max_tree_nodes = 2;
  const auto small = made(parts);
  drafted_request other(*small);
  other.last_round = answered(other.propose({5, 6}, 2), 2, {}, 2);
  EXPECT_EQ(other.propose({5, 6, 7}, 2).tree.size(), 2U);
}

TEST(trained_trees, are_the_lists_of_the_file_or_a_rule) {
  auto parts = parts_of("ppd", 2);
  parts.options.tree = config::tree_kind::fixed;
  parts.options.tree_top_k = 2;
  parts.options.max_tree_nodes = 64;
  auto inputs = *parts.own_inputs;
  EXPECT_THAT(*trees_for(parts.options, inputs),
              ElementsAre(ElementsAre(model::lookahead_node{{0}, 2}, model::lookahead_node{{1}, 1}),
                          ElementsAre(model::lookahead_node{{0}, 2}, model::lookahead_node{{1}, 1},
                                      model::lookahead_node{{0, 0}, 2}, model::lookahead_node{{1, 0}, 1})));
  inputs.trees = {{{{0}, 1}}, {{{0}, 2}, {{0, 0}, 0}}};
  EXPECT_EQ(*trees_for(parts.options, inputs), inputs.trees);
  EXPECT_EQ(rows_behind(std::vector<std::uint32_t>{2, 3}, 3), 0U);
}

TEST(trained_trees, refuse_what_the_kinds_cannot_draft) {
  auto parts = parts_of("pass");
  parts.options.tree = config::tree_kind::fixed;
  EXPECT_THAT(problem(parts), HasSubstr("kind pass drafts chains"));
  parts = parts_of("ppd");
  parts.options.tree = config::tree_kind::dynamic;
  EXPECT_THAT(problem(parts), HasSubstr("kind ppd drafts chains and static trees"));
  parts.own_inputs = nullptr;
  EXPECT_THAT(problem(parts), HasSubstr("kind ppd needs trained inputs"));
}

TEST(probes, of_given_inputs_are_valid_up_to_their_number) {
  draft carrier;
  carrier.add_probe(token_id{12}, token_tree::root);
  EXPECT_FALSE(validate_draft(carrier, 10, 4, 4));
  EXPECT_FALSE(validate_draft(carrier, 10, 4, 4, 2));
  EXPECT_TRUE(validate_draft(carrier, 10, 4, 4, 3));
  draft committed;
  committed.tree.add(token_id{12}, token_tree::root);
  EXPECT_FALSE(validate_draft(committed, 10, 4, 4, 3)) << "such an id is never committed";
}

} // namespace
} // namespace paceline::speculation
