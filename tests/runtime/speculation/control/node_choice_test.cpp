#include "runtime/speculation/control/node_choice.hpp"

#include "tests/runtime/speculation/control/cost_curves.hpp"

#include <gtest/gtest.h>

#include <random>

namespace paceline::speculation {
namespace {

TEST(node_choice, takes_more_when_drafting_has_cost_already) {
  const pass_cost cost = straight(0.3);
  const std::vector<std::vector<double>> reach{{0.9, 0.81, 0.7, 0.2, 0.1}};
  const auto free = choose_nodes(reach, {}, cost, 0);
  const auto dear = choose_nodes(reach, {.drafting = 8}, cost, 0);
  EXPECT_EQ(free.num_nodes, 3U);
  EXPECT_EQ(dear.num_nodes, 4U) << "each node adds to a round that is long anyway";
  EXPECT_NEAR(dear.cost, cost.ratio(5) + 8, 1e-9);
}

TEST(node_choice, takes_what_pays_and_leaves_the_rest) {
  const pass_cost cost = straight(0.3);
  const std::vector<std::vector<double>> reach{{0.9, 0.81, 0.7, 0.2, 0.1}};
  const auto choice = choose_nodes(reach, {}, cost, 0);
  EXPECT_EQ(choice.keep[0], (std::vector<bool>{true, true, true, false, false}));
  EXPECT_EQ(choice.num_nodes, 3U);
  EXPECT_NEAR(choice.tokens, 1 + 0.9 + 0.81 + 0.7, 1e-9);
  EXPECT_NEAR(choice.cost, 1.9, 0.02);
}

TEST(node_choice, is_plain_decoding_where_rows_cost_as_much_as_tokens_bring) {
  const pass_cost cost = straight(1.0);
  const std::vector<std::vector<double>> reach{{0.95, 0.9, 0.9}};
  EXPECT_EQ(choose_nodes(reach, {}, cost, 0).num_nodes, 0U);
}

TEST(node_choice, wants_a_margin) {
  const pass_cost cost = straight(0.5);
  const std::vector<std::vector<double>> reach{{0.52}};
  EXPECT_EQ(choose_nodes(reach, {}, cost, 0).num_nodes, 1U);
  EXPECT_EQ(choose_nodes(reach, {}, cost, 0.05).num_nodes, 0U);
}

TEST(node_choice, gives_rows_to_the_lanes_that_use_them_best) {
  const pass_cost cost = straight(0.2);
  const std::vector<std::vector<double>> reach{{0.1, 0.05}, {0.95, 0.9}, {0.6, 0.15}};
  const auto choice = choose_nodes(reach, {3, 3}, cost, 0);
  EXPECT_EQ(choice.keep[0], (std::vector<bool>{false, false}));
  EXPECT_EQ(choice.keep[1], (std::vector<bool>{true, true}));
  EXPECT_EQ(choice.keep[2], (std::vector<bool>{true, false}));
}

TEST(node_choice, drafts_beside_a_prompt_as_without_it) {
  const pass_cost cost = straight(0.3);
  const std::vector<std::vector<double>> reach{{0.9, 0.81, 0.7, 0.2, 0.1}};
  const auto without = choose_nodes(reach, {}, cost, 0);
  const auto beside = choose_nodes(reach, {.num_requests = 1, .num_rows = 100}, cost, 0);
  EXPECT_EQ(beside.keep, without.keep)
      << "a token that is seldom right is not worth a row because others have many";
  EXPECT_NEAR(beside.cost, without.cost, 0.02);
}

TEST(node_choice, knows_that_rows_beside_a_prompt_cost_more) {
  // Eight rows for the price of one, then a price per row: a prompt has used up the free rows.
  pass_cost cost;
  for (int i = 0; i < 300; ++i)
    for (std::uint32_t rows = 1; rows <= 64; ++rows)
      cost.observe(rows, 1e6 * (rows <= 8 ? 1.0 : rows / 8.0 + 0.2 * (rows - 8)));
  const std::vector<std::vector<double>> reach{{0.3, 0.2}};
  EXPECT_EQ(choose_nodes(reach, {}, cost, 0).num_nodes, 2U);
  EXPECT_EQ(choose_nodes(reach, {.num_requests = 1, .num_rows = 50}, cost, 0).num_nodes, 0U);
}

TEST(node_choice, shrinks_to_nothing_as_the_batch_grows) {
  // Free up to eight rows, then a price per row: the curve of a machine with slow multiplication.
  pass_cost cost;
  for (int i = 0; i < 300; ++i)
    for (std::uint32_t rows = 1; rows <= 40; ++rows) cost.observe(rows, 1e6 * (rows <= 8 ? 1.0 : rows / 8.0));
  std::uint32_t before = 100;
  for (std::uint32_t batch = 1; batch <= 16; batch *= 2) {
    const std::vector<std::vector<double>> reach(batch, {0.6, 0.36, 0.2});
    const auto drafted = choose_nodes(reach, {batch, batch}, cost, 0.01).num_nodes;
    if (batch == 1) {
      EXPECT_EQ(drafted, 3U);
    }
    if (batch >= 8) {
      EXPECT_EQ(drafted, 0U) << batch;
    }
    EXPECT_LE(drafted / batch, before);
    before = drafted / batch;
  }
}

/// Compared with every set of nodes that is closed under ancestors.
TEST(node_choice, is_the_best_of_all_closed_sets) {
  std::mt19937_64 random(20261121);
  std::uniform_real_distribution<double> uniform;
  for (int round = 0; round < 300; ++round) {
    const pass_cost cost = [&] {
      pass_cost c;
      double time = 1e6;
      for (std::uint32_t rows = 1; rows <= 12; ++rows, time += 1e6 * uniform(random) * (random() % 3))
        for (int i = 0; i < 200; ++i) c.observe(rows, time);
      return c;
    }();
    // One tree of up to nine nodes in two lanes.
    std::vector<std::vector<double>> reach(2);
    std::vector<std::vector<int>> parents(2);
    for (int n = 0; n < 9; ++n) {
      const auto lane = random() % 2;
      const int parent = static_cast<int>(random() % (reach[lane].size() + 1)) - 1;
      parents[lane].push_back(parent);
      reach[lane].push_back(uniform(random) *
                            (parent < 0 ? 1.0 : reach[lane][static_cast<std::size_t>(parent)]));
    }
    const auto choice = choose_nodes(reach, {2, 2}, cost, 0);
    const std::size_t first = reach[0].size();
    double best = 0;
    for (unsigned set = 0; set < 512; ++set) {
      double tokens = 2;
      std::uint32_t rows = 2;
      bool closed = true;
      for (std::size_t n = 0; n < 9 && closed; ++n) {
        if ((set >> n & 1U) == 0) continue;
        const std::size_t lane = n < first ? 0 : 1;
        const std::size_t node = n < first ? n : n - first;
        const int parent = parents[lane][node];
        closed =
            parent < 0 || (set >> (static_cast<std::size_t>(parent) + (lane == 0 ? 0 : first)) & 1U) != 0;
        tokens += reach[lane][node];
        ++rows;
      }
      if (closed) best = std::max(best, tokens / cost.ratio(rows));
    }
    ASSERT_NEAR(choice.tokens / choice.cost, best, 1e-9) << "round " << round;
    for (std::size_t lane = 0; lane < 2; ++lane)
      for (std::size_t node = 0; node < reach[lane].size(); ++node)
        if (choice.keep[lane][node] && parents[lane][node] >= 0) {
          ASSERT_TRUE(choice.keep[lane][static_cast<std::size_t>(parents[lane][node])]);
        }
  }
}

} // namespace
} // namespace paceline::speculation
