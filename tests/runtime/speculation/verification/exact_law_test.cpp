// Laws of the rules, computed exactly. verification_law_test.cpp tests them with samples.
#include "tests/runtime/speculation/verification/enumerated_law.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace paceline::speculation {
namespace {

using namespace test_support;

TEST(exact_law, rejection_gives_the_targets_whatever_the_tree) {
  for (const auto& shape : {chain_of_3, two_then_two, four_proposals, late_sibling})
    for (const siblings kind :
         {siblings::replaced, siblings::distinct, siblings::of_several_drafters, siblings::certain})
      for (std::uint32_t seed = 1; seed <= 12; ++seed) {
        SCOPED_TRACE(::testing::Message()
                     << "seed " << seed << ", nodes " << shape.size() << ", kind " << static_cast<int>(kind));
        world one({shape, kind, seed % 3 == 0 ? penalised() : sampling_params{}}, seed);
        ASSERT_LE(distance(one.law(by_rejection), one.target_law()), 1e-12);
      }
}

TEST(exact_law, block_verification_gives_the_targets_on_chains_and_trees) {
  for (const auto& shape :
       {std::vector<std::int32_t>{-1}, std::vector<std::int32_t>{-1, 0}, chain_of_3, two_then_two})
    for (const siblings kind : {siblings::replaced, siblings::certain})
      for (std::uint32_t seed = 1; seed <= 30; ++seed) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed << ", nodes " << shape.size());
        world one({shape, kind, seed % 3 == 0 ? penalised() : sampling_params{}}, seed);
        ASSERT_LE(distance(one.law(verify_block), one.target_law()), 1e-12);
      }
}

/// Draft tokens that are not allowed are drawn nevertheless. The law is right only if the rule sees them.
TEST(exact_law, a_constraint_keeps_the_laws_of_drawn_drafts) {
  for (const auto& shape : {chain_of_3, two_then_two, late_sibling})
    for (const siblings kind : {siblings::replaced, siblings::distinct, siblings::certain})
      for (std::uint32_t seed = 1; seed <= 12; ++seed) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed << ", nodes " << shape.size());
        world one({shape, kind, seed % 3 == 0 ? penalised() : sampling_params{}, true}, seed);
        ASSERT_LE(distance(one.law(by_rejection), one.target_law()), 1e-12);
        if (kind != siblings::distinct) {
          ASSERT_LE(distance(one.law(verify_block), one.target_law()), 1e-12);
        }
      }
}

TEST(exact_law, block_verification_never_keeps_fewer_tokens_than_rejection) {
  double most = 0;
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    world one({seed % 2 == 0 ? chain_of_3 : std::vector<std::int32_t>{-1, 0}}, seed);
    one.law(by_rejection);
    const double by_token = one.expected_accepted();
    one.law(verify_block);
    ASSERT_GE(one.expected_accepted(), by_token - 1e-12) << "seed " << seed;
    most = std::max(most, one.expected_accepted() / by_token);
  }
  EXPECT_GT(most, 1.1) << "and more where token by token wastes some";
  world certain({chain_of_3, siblings::certain}, 1);
  certain.law(by_rejection);
  const double by_token = certain.expected_accepted();
  certain.law(verify_block);
  EXPECT_EQ(certain.expected_accepted(), by_token) << "certain tokens are judged one by one";
}

TEST(exact_law, block_verification_keeps_as_many_as_its_paper_says) {
  // Section 2 of the paper: two tokens, target (1/3, 2/3), drafter (2/3, 1/3), two draft tokens: 10/9 and
  // 11/9.
  const std::vector<float> target{0.0F, std::log(2.0F), -std::numeric_limits<float>::infinity()};
  const sampling::pipeline pipeline({}, {});
  const draft_distribution from{.tokens = {token_id{0}, token_id{1}}, .probs = {2.0F / 3, 1.0F / 3}};
  const auto expected_accepted = [&](const world::rule& decide) {
    double sum = 0;
    for (std::int32_t first = 0; first < 2; ++first)
      for (std::int32_t second = 0; second < 2; ++second) {
        draft proposal{.probs = {from, from}};
        proposal.tree.add(token_id{first}, token_tree::root);
        proposal.tree.add(token_id{second}, 0);
        const double drawn =
            draft_side(proposal, 0).prob_of_drawn() * draft_side(proposal, 1).prob_of_drawn();
        test::enumerated_dice dice;
        do {
          std::vector<std::vector<float>> rows(3, target);
          const auto result = decide(
              proposal, {.sampling = &pipeline, .next_position = token_position{1}},
              [&](std::int32_t node) { return std::span<float>(rows[static_cast<std::size_t>(node + 1)]); },
              dice);
          sum += drawn * dice.probability() * static_cast<double>(result.accepted_path.size());
        } while (dice.next());
      }
    return sum;
  };
  EXPECT_NEAR(expected_accepted(by_rejection), 10.0 / 9, 1e-6) << "log 2 is a float";
  EXPECT_NEAR(expected_accepted(verify_block), 11.0 / 9, 1e-6);
}

TEST(exact_law, lenience_bounds_every_probability_and_accepts_as_published) {
  for (const double lenience : {1.0, 0.5, 0.1})
    for (std::uint32_t seed = 1; seed <= 40; ++seed) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", lenience " << lenience);
      world one({{-1}}, seed);
      const auto target = one.target_probs({});
      std::vector<double> residual(vocab); // norm(max(0, target - l * draft))
      double left = 0;
      for (std::size_t i = 0; i < vocab; ++i)
        left += residual[i] = residual_weight(target[i], lenience * one.draft_probs()[i]);
      for (double& prob : residual) prob /= left;
      const auto law = one.law([&](const draft& proposal, const verification_context& context,
                                   const target_row& rows, dice& dice) {
        const auto result = verify_rejection(proposal, context, rows, dice, {.lenience = lenience});
        if (!result.bonus) {
          EXPECT_LE(distance(dynamic_cast<test::enumerated_dice&>(dice).recovered(), residual), 1e-12);
        }
        return result;
      });
      std::vector<double> first(vocab, 0.0);
      for (std::size_t cell = 0; cell < law.size(); ++cell) first[cell % vocab] += law[cell];
      for (std::size_t i = 0; i < vocab; ++i) ASSERT_LE(first[i], target[i] / lenience + 1e-12);
      if (lenience == 1.0) {
        ASSERT_LE(distance(law, one.target_law()), 1e-12);
      }
      // Appendix A.5: alpha = sum min(target / l, draft).
      double alpha = 0;
      for (std::size_t i = 0; i < vocab; ++i) alpha += std::min(target[i] / lenience, one.draft_probs()[i]);
      ASSERT_NEAR(one.expected_accepted(), alpha, 1e-12);
    }
}

TEST(exact_law, without_sample_adjustment_a_rejection_leaves_the_target) {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    world one({{-1, -1}, siblings::of_several_drafters}, seed);
    one.law(
        [&](const draft& proposal, const verification_context& context, const target_row& rows, dice& dice) {
          const auto result = verify_rejection(proposal, context, rows, dice, {.keep_target = true});
          const auto* all = dynamic_cast<test::enumerated_dice*>(&dice);
          if (!result.bonus) {
            EXPECT_LE(distance(all->recovered(), one.target_probs({})), 1e-15);
            EXPECT_NEAR(all->decisions().at(1).probability,
                        accept_probability(
                            one.target_probs({})[static_cast<std::size_t>(proposal.tree.tokens()[1].value)],
                            draft_side(proposal, 1).prob_of_drawn()),
                        1e-15);
          }
          return result;
        });
  }
}

} // namespace
} // namespace paceline::speculation
