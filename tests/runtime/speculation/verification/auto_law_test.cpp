// The controller's choices with rules that use probabilities: committed tokens have the target's joint
// distribution, although the ends of drafts depend on the drawn tokens. PACELINE_LAW_SAMPLES=1000000 for
// docs/figures.md.
#include "runtime/speculation/control/draft_controller.hpp"
#include "runtime/speculation/drafters/draft_lane.hpp"

#include "tests/runtime/speculation/verification/markov_law.hpp"
#include "tests/support/draft_tasks.hpp"

#include <algorithm>
#include <array>

namespace paceline::speculation {
namespace {

using namespace test_support;

/// Draws from the same distribution at every place. A branch ends after token 0, so the depth and size of a
/// draft depend on the drawn tokens.
struct trap_drafter {
  std::vector<float> law;
  std::uint32_t num_levels = 3, num_children = 1; ///< of the root; others have one

  draft propose(const sampling::pipeline& sampling, std::uint32_t length) const {
    draft made{.base_length = length};
    made.plan = {num_levels, num_levels * num_children};
    draft_distribution from;
    for (const std::int32_t token : {1, 0, 2, 3}) { // falling probabilities
      from.tokens.push_back(token_id{token});
      from.probs.push_back(law[static_cast<std::size_t>(token)]);
    }
    std::vector<std::int32_t> level{token_tree::root};
    for (std::uint32_t depth = 0; depth < num_levels; ++depth) {
      const auto noise =
          sampling.noise(noise_purpose::draft, token_position{length + depth}, draft_place(depth, 0));
      std::vector<std::int32_t> next;
      for (const auto parent : level) {
        if (parent != token_tree::root && made.tree.tokens()[static_cast<std::size_t>(parent)] == token_id{0})
          continue;
        auto drawn = draw_without_replacement(from, noise, depth == 0 ? num_children : 1);
        for (std::size_t i = 0; i < drawn.tokens.size(); ++i) {
          next.push_back(made.tree.add(drawn.tokens[i].token, parent));
          made.probs.push_back(std::move(drawn.distributions[i]));
        }
      }
      level = std::move(next);
    }
    return made;
  }
};

struct law_case {
  const char* name;
  verification_rule rule;
  std::uint32_t num_children;
};

void PrintTo(const law_case& one, std::ostream* out) { *out << one.name; }

/// Every second row is free. So a draft that seems short does not pay, and one that seems long does. Rows are
/// alternately cheap and expensive, so that there is a choice.
double cost_of(std::uint32_t rows, std::uint64_t round) {
  return 1 + std::array{0.05, 0.3, 0.9}[round / 2000 % 3] * (rows / 2);
}

class auto_law : public testing::TestWithParam<law_case> {
 protected:
  /// The part of one of the proposals that is verified.
  using chooser = std::function<draft(draft_history& history, const std::vector<token_id>& tokens,
                                      std::vector<draft> proposals)>;

  static test::goodness_of_fit sample(const chooser& choose, tally& acceptance) {
    const auto [name, rule, num_children] = GetParam();
    const std::vector<trap_drafter> drafters{{{0.35F, 0.4F, 0.15F, 0.1F}, 3, num_children},
                                             {{0.25F, 0.3F, 0.25F, 0.2F}, 2, num_children}};
    const auto prompt = test::tokens_of(test::ids{1, 3, 0, 2});
    std::vector<std::uint64_t> counts(256);
    const std::uint64_t num_samples = test::num_law_samples(500'000);
    for (std::uint64_t i = 0; i < num_samples; ++i) {
      draft_history history;
      sampling_params params;
      params.seed = i;
      const auto propose = [&](const sampling::pipeline& sampling, const std::vector<token_id>& tokens,
                               const sampling::token_counts&) {
        std::vector<draft> proposals;
        for (const auto& drafter : drafters)
          proposals.push_back(drafter.propose(sampling, static_cast<std::uint32_t>(tokens.size())));
        return choose(history, tokens, std::move(proposals));
      };
      ++counts[speculate(rule, sampling::pipeline(params, {}), prompt, propose, acceptance)];
    }
    const auto fit = test::compare(counts, joint_law({}, prompt));
    std::printf("| %s | %llu | %.1f %% | %.1f (%.1f) | %.5f (%.5f) |\n", name,
                static_cast<unsigned long long>(fit.num_samples), 100 * acceptance.rate(), fit.chi_square,
                fit.chi_square_limit, fit.total_variation, fit.variation_limit);
    return fit;
  }
};

TEST_P(auto_law, is_the_targets_with_the_controllers_choice) {
  draft_controller controller(2);
  std::vector<pass_time> at_load;
  for (std::uint32_t rows = 1; rows <= 8; ++rows) at_load.push_back({rows, 1e6 * cost_of(rows, 0)});
  controller.calibrate(at_load); // else sizes beyond those that were run look expensive
  std::uint64_t num_rounds = 0, num_plain = 0, num_deep = 0, num_of[2] = {};
  const auto choose = [&](draft_history& history, const std::vector<token_id>& tokens,
                          std::vector<draft> proposals) {
    controller.learn(history, tokens);
    std::vector<draft_controller::request_choice> requests(1);
    requests[0].history = &history;
    requests[0].proposals = std::move(proposals);
    controller.choose(requests, {});
    const auto num_nodes = requests[0].chosen.tree.size();
    controller.observe(1 + num_nodes, 1e6 * cost_of(1 + num_nodes, num_rounds++));
    num_plain += num_nodes == 0 ? 1 : 0;
    num_deep += num_nodes > 0 && requests[0].chosen.tree.depths().back() > 0 ? 1 : 0;
    num_of[requests[0].candidate] += num_nodes > 0 ? 1 : 0;
    return std::move(requests[0].chosen);
  };
  tally acceptance;
  const auto fit = sample(choose, acceptance);
  EXPECT_TRUE(fit.accepted()) << "chi-square " << fit.chi_square << " of " << fit.chi_square_limit;
  EXPECT_GT(num_of[0] + num_of[1], 10'000U) << "it drafts";
  EXPECT_GT(num_plain, 1'000U) << "and does not";
  EXPECT_GT(num_deep, GetParam().num_children == 1 ? 10'000U : 0U)
      << "more than the first token, or rule block would be rule rejection";
  EXPECT_GT(num_of[0], 100U) << "with either drafter";
  EXPECT_GT(num_of[1], 100U);
}

/// A choice that depends on the drawn tokens: the deeper draft, and none that seems too short to pay.
TEST_P(auto_law, is_another_one_if_realised_lengths_are_looked_at) {
  const auto choose = [](draft_history&, const std::vector<token_id>&, std::vector<draft> proposals) {
    const auto best =
        std::ranges::max_element(proposals, {}, [](const draft& one) { return one.tree.size(); });
    return best->tree.size() >= 2 ? std::move(*best) : draft{.base_length = best->base_length};
  };
  tally acceptance;
  EXPECT_FALSE(sample(choose, acceptance).accepted());
}

INSTANTIATE_TEST_SUITE_P(verification_law, auto_law,
                         testing::Values(law_case{"rejection", verification_rule::rejection, 1},
                                         law_case{"block", verification_rule::block, 1},
                                         law_case{"trees", verification_rule::rejection, 2}),
                         [](const auto& instance) { return std::string(instance.param.name); });

} // namespace
} // namespace paceline::speculation
