#include "tests/actors/requests.hpp"
#include "tests/support/cycle_constraint.hpp"

#include <gtest/gtest.h>

#include <string>

namespace paceline {
namespace {

using namespace test;

class constrained : public ::testing::TestWithParam<std::string> {};

/// Requests whose outputs must match something run beside one without a constraint. With any drafter, in-line
/// or on a separate stream, in advance or not, the tokens are those of plain decoding under the same
/// constraint.
TEST_P(constrained, tokens_equal_plain_decoding) {
  std::uint32_t accepted = 0;
  for (const float temperature : {0.0F, 1.0F})
    for (const auto ahead : {ahead_mode::off, ahead_mode::ahead, ahead_mode::outcomes}) {
      simulation_options options;
      options.seed = 3;
      options.shuffle = true;
      options.num_partitions = 2;
      options.num_guesses = 2;
      options.overlap = {ahead};
      options.target = small_target();
      auto drafter = drafter_called(GetParam(), small_target());
      const bool worker =
          ahead != ahead_mode::off || drafter->traits().where == speculation::placement::worker;
      if (worker) drafter = placed(std::move(drafter), speculation::placement::worker);
      std::vector<simulated_drafter> drafters;
      drafters.push_back({std::move(drafter), 5, worker ? 1U : 0U});
      simulation sim(options, std::move(drafters));
      std::vector<generation_request> requests;
      for (std::uint32_t n = 0; n < 4; ++n) {
        requests.push_back(request_number(n, temperature));
        if (n != 2) requests.back().constraint = make_cycle_constraint(options.target.vocab_size);
        sim.submit(requests.back(), drafter_index{1});
      }
      ASSERT_TRUE(sim.run());
      for (std::uint32_t n = 0; n < 4; ++n) {
        const auto& tokens = sim.client(n).tokens;
        ASSERT_EQ(tokens, decode_plainly(sim.target(), requests[n])) << "request " << n;
        ASSERT_EQ(sim.client(n).finish, finish_reason::length);
        if (n == 2) continue;
        for (std::size_t i = 0; i < tokens.size(); ++i)
          ASSERT_TRUE(cycle_allows(std::span(tokens).first(i), tokens[i], options.target.vocab_size)) << i;
        accepted += sim.client(n).speculation->num_accepted_tokens;
        if (GetParam() == "forced") { // a third of the tokens is forced, two in a row, and one of these may
                                      // be the last of a round
          ASSERT_GE(sim.client(n).speculation->num_accepted_tokens, tokens.size() / 6);
        }
      }
    }
  const bool is_often_right = GetParam() == "forced" || GetParam() == "model";
  EXPECT_TRUE(accepted > 0 || !is_often_right);
}

INSTANTIATE_TEST_SUITE_P(drafters, constrained,
                         ::testing::Values("forced", "ngram", "half_right", "tree", "model", "model_other",
                                           "suffix", "twins", "lookahead", "always_wrong"),
                         [](const auto& named) { return named.param; });

} // namespace
} // namespace paceline
