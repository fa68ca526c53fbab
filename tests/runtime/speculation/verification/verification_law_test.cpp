#include "runtime/speculation/verification/verification.hpp"
#include "tests/support/reference_pipeline.hpp"
#include "tests/support/statistics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

/// Rule `rejection` has the target's law: chi-square and total variation (E2), joint law of several tokens
/// (E3), with draft, acceptance and residual noise from the production streams of one request (E4).
namespace paceline::speculation {
namespace {

using row = std::vector<float>;

/// Where a draft token comes from in one configuration.
enum class draft_kind { soft, certain };

struct law_case {
  std::string name;
  row target;
  row drafted;                  ///< logits of the drafter
  sampling_params params;       ///< of the request
  sampling_params draft_params; ///< how the drafter processes its row
  draft_kind kind = draft_kind::soft;
  double min_acceptance = 0; ///< the case is what it says it is
  double max_acceptance = 1;
};

row slope(std::size_t size, float from, float to) {
  row logits(size);
  for (std::size_t i = 0; i < size; ++i)
    logits[i] = from + (to - from) * static_cast<float>(i) / static_cast<float>(size - 1);
  return logits;
}

std::vector<law_case> law_cases() {
  const row falling = slope(8, 1.0F, -1.0F);
  const row rising = slope(8, -1.0F, 1.0F);
  std::vector<law_case> cases;
  const auto add = [&](std::string name, const row& target, const row& drafted, double min_acceptance,
                       double max_acceptance) -> law_case& {
    law_case& one = cases.emplace_back();
    one.name = std::move(name);
    one.target = target;
    one.drafted = drafted;
    one.min_acceptance = min_acceptance;
    one.max_acceptance = max_acceptance;
    return one;
  };
  add("opposed", falling, rising, 0.35, 0.55);
  add("opposed_two_tokens", {0.8F, -0.8F}, {-0.8F, 0.8F}, 0.2, 0.5);
  law_case& cold = add("opposed_and_cold", falling, rising, 0, 0.3);
  cold.params.temperature = cold.draft_params.temperature = 0.5F;
  add("near", falling, slope(8, 0.9F, -0.7F), 0.85, 1);
  add("equal", falling, falling, 0.999999, 1);
  law_case& disjoint = add("disjoint", falling, rising, 0, 0);
  disjoint.params.top_k = disjoint.draft_params.top_k = 2;
  add("draft_colder_than_target", falling, falling, 0.5, 0.9).draft_params.temperature = 0.5F;
  law_case& cut = add("truncated_target", falling, rising, 0, 0.5);
  cut.params.temperature = 0.8F;
  cut.params.top_k = 5;
  cut.params.top_p = 0.9F;
  law_case& both = add("truncated_both", falling, slope(8, 0.5F, 0.0F), 0, 0.9);
  both.params.min_p = 0.15F;
  both.draft_params.top_p = 0.7F;
  add("biased_target", rising, rising, 0, 0.9).params.logit_bias = {{token_id{2}, 2.0F},
                                                                    {token_id{5}, -100.0F}};
  law_case& certain = add("certain_draft", falling, rising, 0, 0.2);
  certain.draft_params.top_k = 1;
  certain.kind = draft_kind::certain;
  add("wide_vocabulary", slope(70, 2.0F, -1.0F), slope(70, 0.3F, 0.0F), 0, 0.8);
  return cases;
}

void PrintTo(const law_case& one, std::ostream* out) { *out << one.name; }

class one_step : public testing::TestWithParam<law_case> {};

TEST_P(one_step, follows_the_targets_distribution) {
  const law_case& one = GetParam();
  constexpr std::uint32_t num_samples = 1000000;
  sampling_params params = one.params;
  params.seed = 4242 + static_cast<std::uint64_t>(one.name.size());
  const sampling::pipeline target(params, {});
  const sampling::pipeline drafter(one.draft_params, {});
  row draft_scores = one.drafted;
  ASSERT_TRUE(drafter.process(draft_scores, {}));
  const draft_distribution from = truncated_distribution(draft_scores);

  std::vector<std::uint64_t> counts(one.target.size());
  std::uint64_t accepted = 0;
  row scratch; // one row a round is enough: of rule `rejection` the bonus row comes last
  const target_row rows = [&](std::int32_t) {
    scratch = one.target;
    return std::span<float>(scratch);
  };
  draft proposal;
  for (std::uint32_t i = 0; i < num_samples; ++i) {
    const token_position position{i};
    proposal.tree.clear();
    proposal.tree.add(draw(from, target.noise(noise_purpose::draft, position)), token_tree::root);
    if (one.kind == draft_kind::soft && proposal.probs.empty()) proposal.probs.push_back(from);
    const verdict result = verify({.rule = verification_rule::rejection}, proposal,
                                  {.sampling = &target, .next_position = position}, rows);
    accepted += result.accepted_path.size();
    const token_id first = result.accepted_path.empty() ? result.next : proposal.tree.tokens()[0];
    ++counts[static_cast<std::size_t>(first.value)];
  }
  const auto fit = test::compare(counts, test::process(one.target, params, {}, {}, 0).probs);
  const double acceptance = static_cast<double>(accepted) / num_samples;
  RecordProperty("acceptance", std::to_string(acceptance));
  EXPECT_TRUE(fit.accepted()) << "seed " << params.seed << ": chi-square " << fit.chi_square << " of "
                              << fit.chi_square_limit << ", variation " << fit.total_variation << " of "
                              << fit.variation_limit;
  EXPECT_GE(acceptance, one.min_acceptance);
  EXPECT_LE(acceptance, one.max_acceptance);
}

INSTANTIATE_TEST_SUITE_P(verification_law, one_step, testing::ValuesIn(law_cases()),
                         [](const auto& instance) { return instance.param.name; });

/// A Markov chain over four tokens: row t are the logits after token t.
using markov = std::vector<row>;

struct joint_case {
  std::string name;
  std::vector<std::int32_t> parents = {-1}; ///< of the draft's nodes
  verification_rule rule = verification_rule::rejection;
  draft_kind kind = draft_kind::soft;
  bool opposed = false; ///< the drafter likes least what the target likes most
  std::uint64_t num_samples = 100000;
  sampling_params params = {};
};

const markov target_chain{{1.0F, 0.2F, -0.5F, 0.1F},
                          {-0.3F, 0.9F, 0.0F, 0.4F},
                          {0.0F, -0.8F, 0.7F, 0.6F},
                          {0.5F, 0.3F, -0.2F, -1.0F}};
const markov draft_chain{{-0.5F, 0.3F, 0.8F, 0.0F},
                         {0.6F, -0.4F, 0.2F, 0.0F},
                         {0.1F, 0.9F, -0.6F, 0.3F},
                         {-0.8F, 0.0F, 0.5F, 0.9F}};
constexpr std::size_t num_tokens = 4; ///< tokens a sample, so 256 cells

std::vector<joint_case> joint_cases() {
  sampling_params penalised;
  penalised.temperature = 0.9F;
  penalised.repetition_penalty = 1.4F;
  penalised.presence_penalty = 0.5F;
  penalised.frequency_penalty = 0.8F;
  sampling_params cut;
  cut.top_k = 3;
  cut.min_p = 0.1F;
  const std::vector<std::int32_t> one{-1}, two{-1, 0}, three{-1, 0, 1}, four{-1, 0, 1, 2};
  const std::vector<std::int32_t> proposals{-1, -1, -1}, tree{-1, -1, 0, 1, 1};
  constexpr auto coupled = verification_rule::coupled;
  constexpr auto rejection = verification_rule::rejection;
  constexpr auto block = verification_rule::block;
  constexpr auto soft = draft_kind::soft;
  constexpr auto certain = draft_kind::certain;
  constexpr std::uint64_t million = 1000000;       // samples
  constexpr std::uint64_t million_tokens = 250000; // of samples of four
  return {
      {.name = "soft_1", .parents = one},
      {.name = "soft_2", .parents = two},
      {.name = "soft_4", .parents = four},
      {"soft_3_penalised", three, rejection, soft, false, 100000, penalised},
      {"soft_3_cut", three, rejection, soft, false, 100000, cut},
      {"certain_3_penalised", three, rejection, certain, false, 100000, penalised},
      {"coupled_3_penalised", three, coupled, soft, false, 100000, penalised},
      {"coupled_tree", tree, coupled, soft, false, 100000, {}},
      {"chain_opposed", three, rejection, soft, true, million_tokens, {}},
      {"block_3", three, block, soft, false, million_tokens, {}},
      {"block_opposed", three, block, soft, true, million, {}},
      {"block_3_penalised", three, block, soft, false, million_tokens, penalised},
      {"block_certain", three, block, certain, false, 100000, {}},
      {"proposals", proposals, rejection, soft, false, million_tokens, {}},
      {"proposals_opposed", proposals, rejection, soft, true, million, {}},
      {"tree", tree, rejection, soft, false, 100000, {}},
      {"tree_opposed", tree, rejection, soft, true, million_tokens, {}},
      {"tree_penalised", tree, rejection, soft, true, million_tokens, penalised},
      {"tree_by_block", tree, block, soft, true, 100000, cut},
  };
}

void PrintTo(const joint_case& one, std::ostream* out) { *out << one.name; }

/// Draws the draft of one round after `tokens`.
draft propose(const joint_case& one, const sampling::pipeline& sampling, const std::vector<token_id>& tokens,
              const sampling::token_counts& counts) {
  const auto length = static_cast<std::uint32_t>(tokens.size());
  draft proposal{.base_length = length};
  token_tree& tree = proposal.tree;
  for (const std::int32_t parent : one.parents) {
    std::vector<token_id> path;
    for (const std::int32_t node : tree.path_to(parent))
      path.push_back(tree.tokens()[static_cast<std::size_t>(node)]);
    const auto depth = static_cast<std::uint32_t>(path.size());
    const auto last = static_cast<std::size_t>((path.empty() ? tokens.back() : path.back()).value);
    row scores = one.opposed ? target_chain[last] : draft_chain[last];
    if (one.opposed)
      for (float& logit : scores) logit = -logit;
    const sampling::row_context at{.committed = &counts,
                                   .draft_path = path,
                                   .position = token_position{length + depth},
                                   .output_index = length - 1 + depth};
    if (one.rule == verification_rule::coupled) {
      tree.add(sampling.process_and_sample(scores, at), parent);
      continue;
    }
    EXPECT_TRUE(sampling.process(scores, at));
    draft_distribution from = truncated_distribution(scores);
    const auto sibling = static_cast<std::uint32_t>(tree.children(parent).size());
    tree.add(one.kind == draft_kind::certain
                 ? from.tokens[0]
                 : draw(from, sampling.noise(noise_purpose::draft, at.position, draft_place(depth, sibling))),
             parent);
    if (one.kind == draft_kind::soft) proposal.probs.push_back(std::move(from));
  }
  return proposal;
}

/// Draft tokens that could have been kept, and those that were.
struct tally {
  std::uint64_t offered = 0, kept = 0;
};

/// One sample of `num_tokens` tokens after token 0, by rounds of draft and verdict.
std::vector<token_id> speculate(const joint_case& one, const sampling::pipeline& sampling,
                                tally& acceptance) {
  std::vector<token_id> tokens{token_id{0}};
  sampling::token_counts counts;
  counts.add_prompt(tokens);
  while (tokens.size() < num_tokens + 1) {
    const draft proposal = propose(one, sampling, tokens, counts);
    std::vector<row> rows;
    rows.reserve(one.parents.size() + 1);
    const verdict result =
        verify({.rule = one.rule}, proposal,
               {.sampling = &sampling,
                .counts = &counts,
                .next_position = token_position{static_cast<std::uint32_t>(tokens.size())},
                .output_index = static_cast<std::uint32_t>(tokens.size()) - 1},
               [&](std::int32_t node) {
                 const token_id at =
                     node < 0 ? tokens.back() : proposal.tree.tokens()[static_cast<std::size_t>(node)];
                 rows.push_back(target_chain[static_cast<std::size_t>(at.value)]);
                 return std::span<float>(rows.back());
               });
    acceptance.kept += result.accepted_path.size();
    acceptance.offered += result.accepted_path.size() + (result.bonus ? 0 : 1);
    std::vector<token_id> committed;
    for (const std::int32_t node : result.accepted_path)
      committed.push_back(proposal.tree.tokens()[static_cast<std::size_t>(node)]);
    committed.push_back(result.next);
    for (const token_id token : committed) {
      tokens.push_back(token);
      counts.add_output(token);
    }
  }
  tokens.resize(num_tokens + 1);
  return tokens;
}

class several_steps : public testing::TestWithParam<joint_case> {};

TEST_P(several_steps, follow_the_targets_joint_law) {
  const joint_case& one = GetParam();
  // The law, by enumeration with the slow twin.
  std::vector<double> law(256, 1.0);
  for (std::size_t cell = 0; cell < law.size(); ++cell) {
    std::vector<token_id> context{token_id{0}};
    for (std::size_t i = 0; i < num_tokens; ++i) {
      const auto next = (cell >> (2 * i)) % 4;
      const auto& logits = target_chain[static_cast<std::size_t>(context.back().value)];
      law[cell] *= test::process(logits, one.params, {}, context, 1).probs[next];
      context.push_back(token_id{static_cast<std::int32_t>(next)});
    }
  }
  std::vector<std::uint64_t> counts(256);
  tally acceptance;
  for (std::uint64_t seed = 0; seed < one.num_samples; ++seed) {
    sampling_params params = one.params;
    params.seed = seed;
    const auto tokens = speculate(one, sampling::pipeline(params, {}), acceptance);
    std::size_t cell = 0;
    for (std::size_t i = 0; i < num_tokens; ++i)
      cell |= static_cast<std::size_t>(tokens[i + 1].value) << (2 * i);
    ++counts[cell];
  }
  const auto fit = test::compare(counts, law);
  const double rate = static_cast<double>(acceptance.kept) / static_cast<double>(acceptance.offered);
  RecordProperty("acceptance", std::to_string(rate));
  EXPECT_TRUE(fit.accepted()) << "seeds below " << one.num_samples << ": chi-square " << fit.chi_square
                              << " of " << fit.chi_square_limit << ", variation " << fit.total_variation
                              << " of " << fit.variation_limit;
  EXPECT_GT(rate, one.kind == draft_kind::certain ? 0.05 : 0.2) << "drafts are to be kept";
  EXPECT_LT(rate, one.opposed ? 0.75 : 0.95) << "and to be rejected";
}

INSTANTIATE_TEST_SUITE_P(verification_law, several_steps, testing::ValuesIn(joint_cases()),
                         [](const auto& instance) { return instance.param.name; });

} // namespace
} // namespace paceline::speculation
