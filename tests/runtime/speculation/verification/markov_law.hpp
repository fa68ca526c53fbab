#pragma once

#include "runtime/speculation/verification/verification.hpp"
#include "tests/support/reference_pipeline.hpp"
#include "tests/support/statistics.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <vector>

/// Rounds with a Markov chain as target, and the joint distribution of the tokens they must commit.
namespace paceline::speculation::test_support {

using row = std::vector<float>;

/// A Markov chain over four tokens: row t has the logits after token t.
using markov = std::vector<row>;

inline const markov target_chain{{1.0F, 0.2F, -0.5F, 0.1F},
                                 {-0.3F, 0.9F, 0.0F, 0.4F},
                                 {0.0F, -0.8F, 0.7F, 0.6F},
                                 {0.5F, 0.3F, -0.2F, -1.0F}};
constexpr std::size_t num_tokens = 4; ///< tokens in a sample, which gives 256 cells

/// The joint distribution of the tokens after `prompt`, by enumeration with the reference pipeline.
inline std::vector<double> joint_law(const sampling_params& params, const std::vector<token_id>& prompt) {
  std::vector<double> law(256, 1.0);
  for (std::size_t cell = 0; cell < law.size(); ++cell) {
    std::vector<token_id> context = prompt;
    for (std::size_t i = 0; i < num_tokens; ++i) {
      const auto next = (cell >> (2 * i)) % 4;
      const auto& logits = target_chain[static_cast<std::size_t>(context.back().value)];
      law[cell] *= test::process(logits, params, {}, context, prompt.size()).probs[next];
      context.push_back(token_id{static_cast<std::int32_t>(next)});
    }
  }
  return law;
}

/// Number of draft tokens that could have been kept, and of those that were.
struct tally {
  std::uint64_t offered = 0, kept = 0;
  double rate() const { return static_cast<double>(kept) / static_cast<double>(offered); }
};

/// The draft of one round after `tokens`.
using proposer = std::function<draft(const sampling::pipeline& sampling, const std::vector<token_id>& tokens,
                                     const sampling::token_counts& counts)>;

/// One sample of `num_tokens` tokens after `prompt`, by rounds of draft and verdict. Returns its cell.
inline std::size_t speculate(verification_rule rule, const sampling::pipeline& sampling,
                             const std::vector<token_id>& prompt, const proposer& propose,
                             tally& acceptance) {
  std::vector<token_id> tokens = prompt;
  sampling::token_counts counts;
  counts.add_prompt(tokens);
  while (tokens.size() < num_tokens + prompt.size()) {
    const draft proposal = propose(sampling, tokens, counts);
    std::vector<row> rows;
    rows.reserve(proposal.tree.size() + 1);
    const verdict result =
        verify({.rule = rule}, proposal,
               {.sampling = &sampling,
                .counts = &counts,
                .next_position = token_position{static_cast<std::uint32_t>(tokens.size())},
                .output_index = static_cast<std::uint32_t>(tokens.size() - prompt.size())},
               [&](std::int32_t node) {
                 const token_id at =
                     node < 0 ? tokens.back() : proposal.tree.tokens()[static_cast<std::size_t>(node)];
                 rows.push_back(target_chain[static_cast<std::size_t>(at.value)]);
                 return std::span<float>(rows.back());
               });
    acceptance.kept += result.accepted_path.size();
    acceptance.offered += result.accepted_path.size() + (result.bonus ? 0 : 1);
    const auto commit = [&](token_id token) {
      tokens.push_back(token);
      counts.add_output(token);
    };
    for (const std::int32_t node : result.accepted_path)
      commit(proposal.tree.tokens()[static_cast<std::size_t>(node)]);
    commit(result.next);
  }
  std::size_t cell = 0;
  for (std::size_t i = 0; i < num_tokens; ++i)
    cell |= static_cast<std::size_t>(tokens[prompt.size() + i].value) << (2 * i);
  return cell;
}

/// Prints the statistics of the counts, and expects them to fit the distribution.
inline void expect_fit(const std::string& name, std::span<const std::uint64_t> counts,
                       std::span<const double> law, double acceptance) {
  const auto fit = test::compare(counts, law);
  std::printf("| %s | %llu | %.1f %% | %.1f (%.1f) | %.5f (%.5f) |\n", name.c_str(),
              static_cast<unsigned long long>(fit.num_samples), 100 * acceptance, fit.chi_square,
              fit.chi_square_limit, fit.total_variation, fit.variation_limit);
  EXPECT_TRUE(fit.accepted()) << "chi-square " << fit.chi_square << " of " << fit.chi_square_limit
                              << ", variation " << fit.total_variation << " of " << fit.variation_limit;
}

} // namespace paceline::speculation::test_support
