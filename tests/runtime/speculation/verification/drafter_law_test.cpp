#include "tests/runtime/speculation/verification/markov_law.hpp"
#include "tests/support/draft_tasks.hpp"

/// Real drafters with rules that use their probabilities: committed tokens have the target's joint
/// distribution, whether the text that the drafters learn from is similar to the target's or the opposite.
/// PACELINE_LAW_SAMPLES=1000000 for docs/figures.md.
namespace paceline::speculation::drafter_law_test {
namespace {

using namespace test_support;

struct law_case {
  std::string kind;
  bool opposed = false;
  verification_rule rule = verification_rule::rejection;
};

void PrintTo(const law_case& one, std::ostream* out) { *out << one.kind; }

std::string name_of(const law_case& one) {
  return one.kind + (one.opposed ? "_opposed" : "") +
         (one.rule == verification_rule::block ? "_by_block" : "");
}

/// A text of the target's likeliest, or least likely, tokens.
std::vector<token_id> prompt_of(const law_case& one) {
  return test::tokens_of(one.opposed ? test::ids{3, 3, 3, 0, 2, 1, 0, 2, 1, 0, 2, 1, 0}
                                     : test::ids{1, 1, 1, 3, 0, 0, 2, 2, 3, 0, 0, 0});
}

class drafter_law : public testing::TestWithParam<law_case> {};

TEST_P(drafter_law, is_the_targets) {
  const law_case& one = GetParam();
  constexpr std::uint32_t draft_length = 3;
  const auto drafter = test::built_in(test::options_of(one.kind, one.kind), 4);
  const auto prompt = prompt_of(one);
  test::no_ops ops;
  std::unique_ptr<drafter_session> session;
  std::uint64_t num_samples = 0;
  const auto propose = [&](const sampling::pipeline& sampling, const std::vector<token_id>& tokens,
                           const sampling::token_counts& counts) {
    draft_task task{};
    task.request = request_id{num_samples + 1};
    task.tokens = tokens;
    task.sampling = &sampling;
    task.counts = &counts;
    task.prompt_length = static_cast<std::uint32_t>(prompt.size());
    task.rule = one.rule;
    task.draft_length = task.max_nodes = draft_length;
    task.session = session.get();
    drafter->propose(ops, nullptr, {&task, 1});
    EXPECT_EQ(task.result.probs.size(), task.result.tree.size()) << "tokens were drawn";
    return std::move(task.result);
  };
  std::vector<std::uint64_t> counts(256);
  tally acceptance;
  for (; num_samples < test::num_law_samples(250'000); ++num_samples) {
    session = drafter->open(request_id{num_samples + 1});
    sampling_params params;
    params.seed = num_samples;
    ++counts[speculate(one.rule, sampling::pipeline(params, {}), prompt, propose, acceptance)];
  }
  expect_fit(name_of(one), counts, joint_law({}, prompt), acceptance.rate());
  EXPECT_GT(acceptance.rate(), 0.2) << "drafts are to be kept";
  EXPECT_LT(acceptance.rate(), 0.95) << "and to be rejected";
}

INSTANTIATE_TEST_SUITE_P(verification_law, drafter_law,
                         testing::Values(law_case{"unigram"}, law_case{"unigram", true}, law_case{"bigram"},
                                         law_case{"bigram", true}, law_case{"random"},
                                         law_case{"random", true},
                                         law_case{"bigram", true, verification_rule::block},
                                         law_case{"unigram", true, verification_rule::block}),
                         [](const auto& instance) { return name_of(instance.param); });

} // namespace
} // namespace paceline::speculation::drafter_law_test
