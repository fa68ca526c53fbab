#include "tests/runtime/speculation/verification/markov_law.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

/// Rule `rejection` has the target's distribution: chi-square and total variation, and the joint distribution
/// of several tokens, with draft, acceptance and residual noise from the production streams of one request.
/// PACELINE_LAW_SAMPLES=1000000 for docs/figures.md.
namespace paceline::speculation {
namespace {

using namespace test_support;

/// The source of a draft token in one configuration.
enum class draft_kind { soft, certain };

struct law_case {
  std::string name;
  row target;
  row drafted;                  ///< logits of the drafter
  sampling_params params;       ///< of the request
  sampling_params draft_params; ///< how the drafter processes its row
  draft_kind kind = draft_kind::soft;
  double min_acceptance = 0; ///< to check that the case tests what it should
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
  const auto num_samples = static_cast<std::uint32_t>(test::num_law_samples(1'000'000));
  sampling_params params = one.params;
  params.seed = 4242 + static_cast<std::uint64_t>(one.name.size());
  const sampling::pipeline target(params, {});
  const sampling::pipeline drafter(one.draft_params, {});
  row draft_scores = one.drafted;
  ASSERT_TRUE(drafter.process(draft_scores, {}));
  const draft_distribution from = truncated_distribution(draft_scores);

  std::vector<std::uint64_t> counts(one.target.size());
  std::uint64_t accepted = 0;
  row scratch; // one row per round is enough: rule `rejection` reads the bonus row last
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
  const double acceptance = static_cast<double>(accepted) / num_samples;
  expect_fit(one.name, counts, test::process(one.target, params, {}, {}, 0).probs, acceptance);
  EXPECT_GE(acceptance, one.min_acceptance);
  EXPECT_LE(acceptance, one.max_acceptance);
}

INSTANTIATE_TEST_SUITE_P(verification_law, one_step, testing::ValuesIn(law_cases()),
                         [](const auto& instance) { return instance.param.name; });

/// How a draft's tokens are drawn.
enum class drawing {
  replaced, ///< siblings are independent draws: equal ones occur
  distinct, ///< siblings are drawn without replacement
  several,  ///< each sibling by another drafter
  certain,
};

struct joint_case {
  std::string name;
  std::vector<std::int32_t> parents = {-1}; ///< of the draft's nodes
  verification_rule rule = verification_rule::rejection;
  drawing kind = drawing::replaced;
  bool opposed = false; ///< the drafter's order is the reverse of the target's
  sampling_params params = {};

  /// A million tokens, four per sample. For small drafts that are opposed to the target, where a wrong
  /// residual has the most effect, a million samples.
  [[nodiscard]] std::uint64_t num_samples() const {
    return test::num_law_samples(opposed && parents.size() <= 3 ? 1'000'000 : 250'000);
  }
  /// With a higher acceptance the residuals would not be tested. Three of four tokens without repetition, or
  /// with penalties, are rarely all wrong.
  [[nodiscard]] double most_accepted() const {
    if (!opposed) return 0.95;
    return kind == drawing::distinct || params.repetition_penalty != 1 ? 0.85 : 0.75;
  }
};

const markov draft_chain{{-0.5F, 0.3F, 0.8F, 0.0F},
                         {0.6F, -0.4F, 0.2F, 0.0F},
                         {0.1F, 0.9F, -0.6F, 0.3F},
                         {-0.8F, 0.0F, 0.5F, 0.9F}};

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
  const std::vector<std::int32_t> proposals{-1, -1, -1}, tree{-1, -1, 0, 1, 1}, late{-1, 0, 0, -1, 3};
  constexpr auto coupled = verification_rule::coupled;
  constexpr auto rejection = verification_rule::rejection;
  constexpr auto block = verification_rule::block;
  constexpr auto soft = drawing::replaced;
  constexpr auto certain = drawing::certain;
  std::vector<joint_case> cases{
      {.name = "soft_1", .parents = one},
      {.name = "soft_2", .parents = two},
      {.name = "soft_4", .parents = four},
      {"soft_3_penalised", three, rejection, soft, false, penalised},
      {"soft_3_cut", three, rejection, soft, false, cut},
      {"certain_3_penalised", three, rejection, certain, false, penalised},
      {"coupled_3_penalised", three, coupled, soft, false, penalised},
      {"coupled_tree", tree, coupled, soft, false, {}},
      {"chain_opposed", three, rejection, soft, true, {}},
      {"block_3", three, block, soft, false, {}},
      {"block_opposed", three, block, soft, true, {}},
      {"block_3_penalised", three, block, soft, false, penalised},
      {"block_certain", three, block, certain, false, {}},
      {"tree_by_block", tree, block, soft, true, cut},
  };
  // Every kind of siblings in every tree shape, with a drafter that is close to the target and one that is
  // opposed.
  const std::pair<const char*, std::vector<std::int32_t>> shapes[] = {
      {"proposals", proposals}, {"tree", tree}, {"late_sibling", late}};
  const std::pair<const char*, drawing> kinds[] = {
      {"", soft}, {"_distinct", drawing::distinct}, {"_several", drawing::several}, {"_certain", certain}};
  for (const auto& [shape, parents] : shapes)
    for (const auto& [kind, drawn] : kinds)
      for (const bool opposed : {false, true})
        cases.push_back({std::string(shape) + kind + (opposed ? "_opposed" : ""),
                         parents,
                         rejection,
                         drawn,
                         opposed,
                         {}});
  for (const auto& [shape, parents] : shapes) {
    cases.push_back({std::string(shape) + "_penalised", parents, rejection, soft, true, penalised});
    cases.push_back({std::string(shape) + "_cut", parents, rejection, soft, true, cut});
  }
  return cases;
}

void PrintTo(const joint_case& one, std::ostream* out) { *out << one.name; }

/// The drafter's logits after `last`; for `several`, those of the odd siblings come from a different drafter.
row drafted_row(const joint_case& one, token_id last, std::size_t sibling) {
  const bool other = one.kind == drawing::several && sibling % 2 == 1;
  row scores = one.opposed != other ? target_chain[static_cast<std::size_t>(last.value)]
                                    : draft_chain[static_cast<std::size_t>(last.value)];
  if (one.opposed != other)
    for (float& logit : scores) logit = -logit;
  return scores;
}

/// `from` without the tokens of the existing siblings.
draft_distribution without_siblings(draft_distribution from, const token_tree& tree, std::int32_t parent) {
  for (const std::int32_t sibling : tree.children(parent)) {
    const auto at = std::ranges::find(from.tokens, tree.tokens()[static_cast<std::size_t>(sibling)]);
    if (at == from.tokens.end()) continue;
    from.probs.erase(from.probs.begin() + (at - from.tokens.begin()));
    from.tokens.erase(at);
  }
  float total = 0;
  for (const float prob : from.probs) total += prob;
  for (float& prob : from.probs) prob /= total;
  return from;
}

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
    const auto sibling = static_cast<std::uint32_t>(tree.children(parent).size());
    row scores = drafted_row(one, path.empty() ? tokens.back() : path.back(), sibling);
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
    if (one.kind == drawing::distinct) from = without_siblings(std::move(from), tree, parent);
    tree.add(one.kind == drawing::certain
                 ? from.tokens[sibling % from.tokens.size()]
                 : draw(from, sampling.noise(noise_purpose::draft, at.position, draft_place(depth, sibling))),
             parent);
    if (one.kind != drawing::certain) proposal.probs.push_back(std::move(from));
  }
  return proposal;
}

class several_steps : public testing::TestWithParam<joint_case> {};

TEST_P(several_steps, follow_the_targets_joint_law) {
  const joint_case& one = GetParam();
  const std::vector<token_id> prompt{token_id{0}};
  const auto how = [&](const auto& sampling, const auto& tokens, const auto& counts) {
    return propose(one, sampling, tokens, counts);
  };
  std::vector<std::uint64_t> counts(256);
  tally acceptance;
  const std::uint64_t num_samples = one.num_samples();
  for (std::uint64_t seed = 0; seed < num_samples; ++seed) {
    sampling_params params = one.params;
    params.seed = seed;
    ++counts[speculate(one.rule, sampling::pipeline(params, {}), prompt, how, acceptance)];
  }
  expect_fit(one.name, counts, joint_law(one.params, prompt), acceptance.rate());
  EXPECT_GT(acceptance.rate(), one.kind == drawing::certain ? 0.05 : 0.2) << "drafts are to be kept";
  EXPECT_LT(acceptance.rate(), one.most_accepted()) << "and to be rejected";
}

INSTANTIATE_TEST_SUITE_P(verification_law, several_steps, testing::ValuesIn(joint_cases()),
                         [](const auto& instance) { return instance.param.name; });

} // namespace
} // namespace paceline::speculation
