#include "runtime/speculation/verification/verification.hpp"

#include "runtime/base/check.hpp"
#include "runtime/sampling/row_kernels.hpp"
#include "tests/support/cycle_constraint.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace paceline::speculation {
namespace {

const float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Target logits by node; counts how often each row was asked for.
class table {
 public:
  table(std::uint32_t vocab, std::size_t num_nodes)
      : rows_(num_nodes + 1, std::vector<float>(vocab, 0.0F)), asked(num_nodes + 1) {}

  std::vector<float>& operator[](std::int32_t node) { return rows_[static_cast<std::size_t>(node + 1)]; }
  /// Makes `token` by far the likeliest at `node`.
  void prefer(std::int32_t node, std::int32_t token) {
    (*this)[node][static_cast<std::size_t>(token)] = 60.0F;
  }
  target_row rows() {
    return [this](std::int32_t node) {
      ++asked[static_cast<std::size_t>(node + 1)];
      return std::span<float>((*this)[node]);
    };
  }

 private:
  std::vector<std::vector<float>> rows_;

 public:
  std::vector<int> asked;
};

draft chain(const std::vector<std::int32_t>& tokens) {
  draft proposal;
  for (const std::int32_t token : tokens)
    proposal.tree.add(token_id{token}, static_cast<std::int32_t>(proposal.tree.size()) - 1);
  return proposal;
}

struct fixed_request {
  explicit fixed_request(float temperature = 0.0F) : pipeline({.temperature = temperature, .seed = 5}, {}) {}
  verification_context context() const {
    return {.sampling = &pipeline, .counts = &counts, .next_position = token_position{10}, .output_index = 3};
  }
  sampling::pipeline pipeline;
  sampling::token_counts counts;
};

class every_rule : public testing::TestWithParam<std::tuple<verification_rule, float>> {
 protected:
  fixed_request request{std::get<1>(GetParam())};
  verdict decide(draft proposal, table& target) {
    if (std::get<0>(GetParam()) ==
        verification_rule::block) // without distributions it would be rule `rejection`
      for (const token_id token : proposal.tree.tokens())
        proposal.probs.push_back({.tokens = {token}, .probs = {1.0F}});
    return verify({.rule = std::get<0>(GetParam())}, proposal, request.context(), target.rows());
  }
};

TEST_P(every_rule, keep_the_leading_run_and_add_the_recovered_token) {
  table target(8, 3);
  target.prefer(-1, 4);
  target.prefer(0, 5);
  target.prefer(1, 6);
  target.prefer(2, 7);
  const verdict result = decide(chain({4, 5, 1}), target);
  EXPECT_EQ(result.accepted_path, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(result.next, token_id{6});
  EXPECT_FALSE(result.bonus);
  EXPECT_FALSE(result.hopeless);
  EXPECT_EQ(target.asked, (std::vector<int>{1, 1, 1, 0})) << "rows behind the rejection are not needed";
}

TEST_P(every_rule, verify_the_first_draft_token_like_any_other) {
  table target(8, 2);
  target.prefer(-1, 2);
  target.prefer(0, 5);
  const verdict result = decide(chain({4, 5}), target);
  EXPECT_TRUE(result.accepted_path.empty());
  EXPECT_EQ(result.next, token_id{2});
  EXPECT_FALSE(result.bonus);
}

TEST_P(every_rule, add_a_bonus_token_after_full_acceptance) {
  table target(8, 2);
  target.prefer(-1, 4);
  target.prefer(0, 5);
  target.prefer(1, 3);
  const verdict result = decide(chain({4, 5}), target);
  EXPECT_EQ(result.accepted_path, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(result.next, token_id{3});
  EXPECT_TRUE(result.bonus);
}

TEST_P(every_rule, reduce_to_plain_decoding_without_a_draft) {
  table target(8, 0);
  target.prefer(-1, 7);
  const verdict result = decide({}, target);
  EXPECT_TRUE(result.accepted_path.empty());
  EXPECT_EQ(result.next, token_id{7});
  EXPECT_EQ(target.asked, (std::vector<int>{1}));
}

TEST_P(every_rule, report_a_row_without_finite_logits_and_accept_nothing_behind_it) {
  table target(8, 2);
  target.prefer(-1, 4);
  target[0].assign(8, not_a_number);
  target.prefer(1, 3);
  const verdict result = decide(chain({4, 0}), target);
  EXPECT_TRUE(result.hopeless);
  EXPECT_EQ(result.accepted_path, (std::vector<std::int32_t>{0}));
  EXPECT_EQ(result.next, token_id{0});
}

INSTANTIATE_TEST_SUITE_P(
    verification, every_rule,
    testing::Combine(testing::Values(verification_rule::coupled, verification_rule::rejection,
                                     verification_rule::block, verification_rule::lenient,
                                     verification_rule::typical, verification_rule::skip_sample_adjustment),
                     testing::Values(0.0F, 1.0F)));

TEST(verify_coupled, walks_down_a_tree_along_the_targets_own_samples) {
  draft proposal;
  proposal.tree.add(token_id{1}, token_tree::root); // 0
  proposal.tree.add(token_id{2}, token_tree::root); // 1: right
  proposal.tree.add(token_id{3}, 0);                // 2: right token below the wrong parent
  proposal.tree.add(token_id{4}, 1);                // 3
  proposal.tree.add(token_id{3}, 1);                // 4: right
  table target(8, 5);
  target.prefer(-1, 2);
  target.prefer(1, 3);
  target.prefer(4, 6);
  target.prefer(0, 3);
  const fixed_request request;
  verdict result = verify_coupled(proposal, request.context(), target.rows());
  EXPECT_EQ(result.accepted_path, (std::vector<std::int32_t>{1, 4}));
  EXPECT_EQ(result.next, token_id{6});
  EXPECT_TRUE(result.bonus) << "node 4 is a leaf";
  target.prefer(1, 7);
  target[1][3] = 0;
  result = verify_coupled(proposal, request.context(), target.rows());
  EXPECT_EQ(result.accepted_path, (std::vector<std::int32_t>{1}));
  EXPECT_EQ(result.next, token_id{7});
  EXPECT_FALSE(result.bonus);
}

TEST(verify_coupled, gives_the_samples_of_plain_decoding_at_their_positions) {
  const fixed_request request(1.0F);
  for (int trial = 0; trial < 200; ++trial) {
    table target(50, 1);
    for (std::size_t i = 0; i < 50; ++i) {
      target[-1][i] = static_cast<float>((i * 7 + static_cast<std::size_t>(trial)) % 11);
      target[0][i] = static_cast<float>((i * 5 + static_cast<std::size_t>(trial)) % 13);
    }
    std::vector<float> first = target[-1];
    std::vector<float> second = target[0];
    const token_id own =
        request.pipeline.process_and_sample(first, {.position = token_position{10}, .output_index = 3});
    const token_id after =
        request.pipeline.process_and_sample(second, {.position = token_position{11}, .output_index = 4});
    const verdict result = verify_coupled(chain({own.value}), request.context(), target.rows());
    ASSERT_EQ(result.accepted_path.size(), 1U);
    ASSERT_EQ(result.next, after);
  }
}

TEST(verify_rejection, accepts_in_proportion_and_never_what_the_target_excludes) {
  // Target: token 0 and 1 equally likely, the rest impossible. Draft: certain of a token.
  std::size_t accepted = 0;
  constexpr std::uint32_t trials = 20000;
  const fixed_request request(1.0F);
  for (std::uint32_t trial = 0; trial < trials; ++trial) {
    table target(4, 1);
    target[-1] = {0.0F, 0.0F, -200.0F, -std::numeric_limits<float>::infinity()};
    auto context = request.context();
    context.next_position = token_position{trial};
    const draft proposal = chain({static_cast<std::int32_t>(trial % 4)});
    const verdict result = verify({.rule = verification_rule::rejection}, proposal, context, target.rows());
    ASSERT_TRUE(trial % 4 < 2 || result.accepted_path.empty());
    accepted += result.accepted_path.size();
    if (!result.accepted_path.empty()) continue;
    ASSERT_LT(result.next.value, 2);
    ASSERT_NE(result.next.value, static_cast<std::int32_t>(trial % 4))
        << "the rejected certain token has no residual";
  }
  EXPECT_NEAR(static_cast<double>(accepted) / (trials / 2), 0.5, 0.02);
}

TEST(verify_rejection, equal_distributions_always_accept) {
  const fixed_request request(1.0F);
  for (std::uint32_t trial = 0; trial < 3000; ++trial) {
    table target(40, 1);
    for (std::size_t i = 0; i < 40; ++i) target[-1][i] = static_cast<float>(i % 7);
    std::vector<float> scores = target[-1];
    ASSERT_TRUE(request.pipeline.process(scores, {}));
    draft proposal;
    proposal.probs.push_back(truncated_distribution(scores));
    const token_position position{trial};
    proposal.tree.add(draw(proposal.probs[0], request.pipeline.noise(noise_purpose::draft, position)),
                      token_tree::root);
    auto context = request.context();
    context.next_position = position;
    ASSERT_EQ(
        verify({.rule = verification_rule::rejection}, proposal, context, target.rows()).accepted_path.size(),
        1U);
  }
}

TEST(verify_coupled, siblings_with_equal_tokens_count_as_one_with_all_their_branches) {
  draft proposal;
  proposal.tree.add(token_id{2}, token_tree::root); // 0: right, its branch is not
  proposal.tree.add(token_id{2}, token_tree::root); // 1: the same token
  proposal.tree.add(token_id{4}, 0);                // 2
  proposal.tree.add(token_id{3}, 1);                // 3: right
  proposal.tree.add(token_id{3}, 1);                // 4: the same again, with a branch
  proposal.tree.add(token_id{1}, 4);                // 5
  table target(8, 6);
  target.prefer(-1, 2);
  for (const std::int32_t node : {0, 1}) target.prefer(node, 3);
  for (const std::int32_t node : {3, 4}) target.prefer(node, 6);
  const fixed_request request;
  verdict result = verify_coupled(proposal, request.context(), target.rows());
  EXPECT_EQ(result.accepted_path, (std::vector<std::int32_t>{1, 3}));
  EXPECT_EQ(result.next, token_id{6});
  EXPECT_FALSE(result.bonus) << "a branch said what follows, and was wrong";
  for (const std::int32_t node : {3, 4}) target.prefer(node, 1), target[node][6] = 0;
  target.prefer(5, 7);
  result = verify_coupled(proposal, request.context(), target.rows());
  EXPECT_EQ(result.accepted_path, (std::vector<std::int32_t>{1, 4, 5}));
  EXPECT_EQ(result.next, token_id{7});
  EXPECT_TRUE(result.bonus);
}

TEST(verify_rejection, at_temperature_0_trees_give_the_argmax_path) {
  draft proposal;
  proposal.tree.add(token_id{1}, token_tree::root);
  proposal.tree.add(token_id{2}, token_tree::root);
  proposal.tree.add(token_id{2}, token_tree::root);
  proposal.tree.add(token_id{5}, 2);
  const draft_distribution from{.tokens = {token_id{1}, token_id{2}, token_id{5}},
                                .probs = {0.5F, 0.25F, 0.25F}};
  proposal.probs.assign(4, from);
  const fixed_request request;
  for (const auto rule : {verification_rule::rejection, verification_rule::block}) {
    table target(8, 4);
    target.prefer(-1, 2);
    for (const std::int32_t node : {1, 2}) target.prefer(node, 5);
    target.prefer(3, 4);
    const verdict result = verify({.rule = rule}, proposal, request.context(), target.rows());
    EXPECT_EQ(result.accepted_path, (std::vector<std::int32_t>{2, 3}));
    EXPECT_EQ(result.next, token_id{4});
  }
}

/// Its mask would be work that plain decoding does not do.
TEST(verification_of_constrained_drafts, asks_for_no_row_behind_a_rejected_token) {
  for (const auto rule :
       {verification_rule::coupled, verification_rule::rejection, verification_rule::block,
        verification_rule::skip_sample_adjustment, verification_rule::lenient, verification_rule::typical})
    for (const float temperature : {0.0F, 1.0F}) {
      draft proposal = chain({4, 3, 5});
      const draft_distribution from{.tokens = {token_id{3}, token_id{4}, token_id{5}},
                                    .probs = {0.5F, 0.25F, 0.25F}};
      proposal.probs.assign(3, from);
      table target(8, 3);
      target.prefer(-1, 1);
      const fixed_request request(temperature);
      auto context = request.context();
      const auto cursor = test::make_cycle_constraint(8)->begin();
      context.constraint = cursor.get();
      const verdict result = verify({.rule = rule}, proposal, context, target.rows());
      EXPECT_TRUE(result.accepted_path.empty());
      EXPECT_EQ(result.next, token_id{1});
      EXPECT_EQ(target.asked, (std::vector<int>{1, 0, 0, 0})) << static_cast<int>(rule) << temperature;
    }
}

TEST(request_dice, takes_every_decision_from_a_stream_of_its_own) {
  const fixed_request request(1.0F);
  request_dice dice(request.pipeline);
  for (std::uint32_t i = 0; i < 200; ++i) {
    const token_position position{i / 8};
    const std::uint32_t place = draft_place(i % 4, i % 8);
    EXPECT_EQ(dice.keeps(0.5, position, place),
              request.pipeline.noise(noise_purpose::accept, position, place).uniform() < 0.5);
    std::vector<float> scores(30, 0.0F);
    remaining_target rest(scores);
    EXPECT_EQ(dice.recovers(rest, position),
              sampling::gumbel_argmax(std::vector<float>(30, 0.0F),
                                      request.pipeline.noise(noise_purpose::residual, position)));
  }
}

class weighing_rules : public testing::TestWithParam<verification_rule> {};

TEST_P(weighing_rules, refuse_drafts_they_cannot_be_exact_for) {
  const fixed_request request(1.0F);
  table target(8, 2);
  const auto decide = [&](const draft& proposal) {
    return verify({.rule = GetParam()}, proposal, request.context(), target.rows());
  };
  draft impossible = chain({3});
  impossible.probs = {{.tokens = {token_id{1}}, .probs = {1.0F}}};
  EXPECT_THROW(decide(impossible), check_failure);
  draft missing = chain({3, 4});
  missing.probs = {{.tokens = {token_id{3}}, .probs = {1.0F}}};
  EXPECT_THROW(decide(missing), check_failure);
  EXPECT_THROW(decide(chain({8})), check_failure);
  EXPECT_THROW(decide(chain({-1})), check_failure);
}

INSTANTIATE_TEST_SUITE_P(verification, weighing_rules,
                         testing::Values(verification_rule::rejection, verification_rule::block,
                                         verification_rule::lenient,
                                         verification_rule::skip_sample_adjustment));

} // namespace
} // namespace paceline::speculation
