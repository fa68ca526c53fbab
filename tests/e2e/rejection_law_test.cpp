// Rules `rejection` and `block` end to end, on chains and trees: with a drafter that is wrong about half the
// time, and with `auto`, committed tokens follow the distribution of the request's own pipeline.
// tests/runtime/speculation/verification tests the rules alone, and their algebra to 1e-12.
#include "runtime/device/ops.hpp"
#include "runtime/rounds/admit.hpp"
#include "runtime/rounds/draft_runner.hpp"
#include "runtime/rounds/round_runner.hpp"
#include "runtime/scheduling/committed_log.hpp"
#include "runtime/scheduling/request_terms.hpp"
#include "runtime/speculation/drafters/draft_lane.hpp"
#include "runtime/speculation/drafters/model_drafter.hpp"
#include "tests/support/reference_pipeline.hpp"
#include "tests/support/simulation.hpp"
#include "tests/support/statistics.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <map>

namespace paceline::test {
namespace {

/// Few cells: the test detects an acceptance that is three percent too high.
constexpr std::uint32_t vocab_size = 3;
/// The length of a request's output. The prompt's round commits the first token, and drafted rounds commit
/// most of the others.
constexpr std::uint32_t num_tokens = 5;
constexpr std::uint32_t draft_length = 2;
constexpr std::size_t num_cells = 243; ///< vocab_size to the power of num_tokens
const std::uint64_t num_requests = num_law_samples(1'000'000) / num_tokens + 1;

model::hash_model_config target_config() {
  model::hash_model_config config;
  config.vocab_size = vocab_size;
  config.context_length = 64;
  config.sharpness = 2.1F;
  return config;
}

/// A model that gives the lowest probability to what the target prefers.
class opposed_model final : public model::language_model {
 public:
  opposed_model() : target_(target_config()) {}
  const model::model_info& info() const noexcept override { return target_.info(); }
  std::unique_ptr<model::kv_storage> make_kv_storage(std::uint32_t blocks, std::uint32_t size,
                                                     std::span<const layer_index> taps = {}) const override {
    return target_.make_kv_storage(blocks, size, taps);
  }
  void forward(device::ops& ops, const device::row_batch& batch, model::kv_storage& kv,
               const model::forward_outputs& outputs) const override {
    target_.forward(ops, batch, kv, outputs);
    for (float& logit : outputs.logits) logit = -logit;
  }

 private:
  model::hash_model target_;
};

struct law_case {
  std::string name;
  sampling_params sampling;
  verification_rule rule = verification_rule::rejection;
  config::tree_kind tree = config::tree_kind::chain;
  std::vector<std::string> paths = {}; ///< of the tree, if it is fixed
  bool asks_a_worker = false;          ///< with `auto`: the second drafter is a worker
};

std::unique_ptr<speculation::drafter> opposed_drafter(const law_case& one) {
  speculation::drafter_parts parts;
  parts.options = options_of("opposed", "model");
  parts.options.tree = one.tree;
  parts.options.tree_paths = one.paths;
  parts.options.tree_top_k = 2;
  parts.options.max_tree_nodes = 5;
  parts.own_model = std::make_shared<opposed_model>();
  parts.target_vocab_size = vocab_size;
  return speculation::drafter_registry::with_built_in().make(parts).value();
}

std::vector<law_case> law_cases() {
  constexpr auto rejection = verification_rule::rejection;
  constexpr auto fixed = config::tree_kind::fixed;
  std::vector<law_case> cases{{"plain", {}},
                              {"penalised_and_cut", {}},
                              {"block", {}, verification_rule::block},
                              {"proposals", {}, rejection, fixed, {"0", "1"}},
                              {"tree", {}, rejection, fixed, {"0", "1", "0.0", "0.1", "1.0"}},
                              {"dynamic_tree", {}, rejection, config::tree_kind::dynamic},
                              {"tree_penalised", {}, rejection, fixed, {"0", "1", "0.0", "0.1", "1.0"}}};
  cases.back().sampling.presence_penalty = 0.6F;
  cases.back().sampling.repetition_penalty = 1.2F;
  cases[1].sampling.temperature = 2.0F;
  cases[1].sampling.top_k = 2;
  cases[1].sampling.presence_penalty = 0.6F;
  cases[1].sampling.repetition_penalty = 1.2F;
  return cases;
}

void PrintTo(const law_case& one, std::ostream* out) { *out << one.name; }

generation_request request_of(const law_case& one, std::uint64_t seed) {
  generation_request r;
  r.prompt = {token_id{2}, token_id{0}, token_id{1}};
  r.sampling = one.sampling;
  r.sampling.seed = seed;
  r.stop.max_tokens = num_tokens;
  r.stop.ignore_eos = true;
  r.speculation.rule = one.rule;
  r.speculation.draft_length = draft_length;
  return r;
}

std::size_t cell_of(std::span<const token_id> tokens) {
  std::size_t cell = 0;
  for (std::size_t i = num_tokens; i-- > 0;)
    cell = cell * vocab_size + static_cast<std::size_t>(tokens[i].value);
  return cell;
}

/// Joint distribution of a request's tokens, by enumeration with the slow version of the pipeline.
std::vector<double> exact_law(const law_case& one) {
  const model::hash_model target(target_config());
  const auto request = request_of(one, 0);
  std::vector<double> law(num_cells, 1.0);
  for (std::size_t cell = 0; cell < num_cells; ++cell) {
    auto context = request.prompt;
    std::size_t rest = cell;
    for (std::uint32_t i = 0; i < num_tokens; ++i, rest /= vocab_size) {
      const auto row = process(target.logits_after(context), request.sampling, request.stop, context,
                               request.prompt.size());
      law[cell] *= row.probs[rest % vocab_size];
      context.emplace_back(static_cast<std::int32_t>(rest % vocab_size));
    }
  }
  return law;
}

/// Totals of a run.
struct sample {
  std::vector<std::uint64_t> counts = std::vector<std::uint64_t>(num_cells);
  std::uint64_t num_drafted = 0, num_accepted = 0;

  void add(std::span<const token_id> tokens) {
    ASSERT_EQ(tokens.size(), num_tokens);
    ++counts[cell_of(tokens)];
  }
};

/// Returns the share of draft tokens that were kept.
double expect_law(const sample& got, const law_case& one) {
  const auto fit = compare(got.counts, exact_law(one));
  const double acceptance = static_cast<double>(got.num_accepted) / static_cast<double>(got.num_drafted);
  std::printf("%s: %llu tokens, %.1f %% of draft tokens accepted, chi-square %.1f (limit %.1f), variation "
              "%.5f (limit %.5f)\n",
              one.name.c_str(), static_cast<unsigned long long>(fit.num_samples * num_tokens),
              100 * acceptance, fit.chi_square, fit.chi_square_limit, fit.total_variation,
              fit.variation_limit);
  EXPECT_TRUE(fit.accepted()) << "chi-square " << fit.chi_square << ", variation " << fit.total_variation;
  return acceptance;
}

void expect_law_and_rejections(const sample& got, const law_case& one) {
  const double acceptance = expect_law(got, one);
  const bool chain = one.tree == config::tree_kind::chain; // at most one of several siblings is kept
  EXPECT_GT(acceptance, chain ? 0.3 : 0.15) << "the drafter is to be wrong about half the time";
  EXPECT_LT(acceptance, 0.65);
}

struct host_ops final : device::ops {
  std::string_view level() const noexcept override { return "test"; }
};

/// Rounds as in the actors, but without actors: draft program, verify program, until every request has ended.
void run_rounds(const law_case& one, std::uint64_t first_seed, std::uint32_t together, sample& out) {
  static const model::hash_model target(target_config());
  static const steady_clock time;
  const auto drafter = opposed_drafter(one);
  constexpr std::uint32_t block_size = 16; // a request fits one block
  const auto kv = target.make_kv_storage(together, block_size);
  const auto draft_kv = drafter->own_model()->make_kv_storage(together, block_size);
  rounds::round_runner verify(
      {&target, kv.get(), {nullptr, drafter.get()}, target.info().context_length, &time});
  rounds::draft_runner draft(*drafter, drafter_index{1}, draft_kv.get(), block_size,
                             target.info().context_length, time);
  host_ops ops;

  scheduling::round_plan plan{round_id{1}, group_id{0}, {}};
  for (std::uint32_t i = 0; i < together; ++i) {
    scheduling::plan_item item;
    item.request = rounds::admit(request_id{i + 1}, request_of(one, first_seed + i),
                                 target.info().context_length, nullptr, time.now());
    item.blocks = item.drafter_blocks = {block_id{i}};
    item.max_rows = item.request.terms->prompt_length();
    item.restart_at = 0;
    plan.items.push_back(std::move(item));
  }
  for (bool open = true; open; ++plan.round.value) {
    auto drafts = std::make_shared<scheduling::draft_batch>();
    draft.run(ops, plan, *drafts);
    scheduling::round_result result;
    verify.run(ops, plan, {{drafts}}, result);
    ASSERT_FALSE(result.failure);
    open = false;
    for (auto& item : plan.items) {
      item.restart_at.reset();
      item.max_rows = 1;
      item.drafter = drafter_index{1};
      item.worker = drafter_index{1};
      item.draft_length = item.worker_length = draft_length;
      item.max_nodes = drafter->max_nodes(draft_length);
      open = open || item.request.log->finish() == finish_reason::none;
    }
    for (const auto& done : result.items) {
      out.num_drafted += done.num_draft;
      out.num_accepted += done.num_accepted;
    }
  }
  for (const auto& item : plan.items)
    out.add(item.request.log->tokens().subspan(item.request.terms->prompt_length()));
}

class rejection_law : public ::testing::TestWithParam<law_case> {};

TEST_P(rejection_law, holds_over_rounds) {
  sample got;
  constexpr std::uint32_t together = 64;
  for (std::uint64_t seed = 0; seed < num_requests + together; seed += together)
    ASSERT_NO_FATAL_FAILURE(run_rounds(GetParam(), seed, together, got));
  expect_law_and_rejections(got, GetParam());
}

TEST_P(rejection_law, holds_through_the_actors) {
  sample got;
  constexpr std::uint32_t together = 100;
  for (std::uint64_t seed = 1; seed < num_requests; seed += together) {
    simulation_options options;
    options.seed = seed;
    options.shuffle = true;
    options.two_groups = seed % 2 == 0;
    options.num_partitions = 1 + seed % 2;
    options.target = target_config();
    std::vector<simulated_drafter> drafters;
    drafters.push_back({opposed_drafter(GetParam()), draft_length, options.num_partitions - 1});
    simulation sim(options, std::move(drafters));
    for (std::uint32_t i = 0; i < together; ++i)
      sim.submit(request_of(GetParam(), seed + i), drafter_index{1});
    ASSERT_TRUE(sim.run()) << "seed " << seed;
    for (std::uint32_t i = 0; i < together; ++i) {
      ASSERT_NO_FATAL_FAILURE(got.add(sim.client(i).tokens)) << "seed " << seed + i;
      got.num_drafted += sim.client(i).speculation->num_draft_tokens;
      got.num_accepted += sim.client(i).speculation->num_accepted_tokens;
    }
  }
  expect_law_and_rejections(got, GetParam());
}

/// Draws each token from the same distribution, at the first level `num_children` siblings. A branch ends
/// after token 0, so the size of a draft depends on the drawn tokens.
class trap_drafter final : public speculation::drafter {
 public:
  trap_drafter(const char* name, std::vector<float> probs, std::uint32_t num_children)
      : num_children_(num_children) {
    traits_.name = name;
    for (std::int32_t token = 0; token < static_cast<std::int32_t>(vocab_size); ++token)
      from_.tokens.emplace_back(token);
    from_.probs = std::move(probs);
  }
  const speculation::drafter_traits& traits() const noexcept override { return traits_; }
  std::unique_ptr<speculation::drafter_session> open(request_id) override {
    return std::make_unique<speculation::drafter_session>();
  }
  std::uint32_t max_nodes(std::uint32_t length) const noexcept override { return length * num_children_; }
  void propose(device::ops&, model::kv_storage*, std::span<speculation::draft_task> tasks) override {
    for (auto& task : tasks) {
      task.result = {.base_length = static_cast<std::uint32_t>(task.tokens.size()),
                     .plan = {task.draft_length, task.draft_length * num_children_}};
      if (task.max_nodes >= task.result.plan.nodes) draft_one(task, task.result);
    }
  }

 private:
  void draft_one(const speculation::draft_task& task, speculation::draft& made) const {
    std::vector<std::int32_t> level{speculation::token_tree::root};
    for (std::uint32_t depth = 0; depth < task.draft_length; ++depth) {
      const auto noise = task.sampling->noise(noise_purpose::draft, token_position{made.base_length + depth},
                                              speculation::draft_place(depth, 0));
      std::vector<std::int32_t> next;
      for (const auto parent : level) {
        if (depth > 0 && made.tree.tokens()[static_cast<std::size_t>(parent)] == token_id{0}) continue;
        auto drawn = speculation::draw_without_replacement(from_, noise, depth == 0 ? num_children_ : 1);
        for (std::size_t i = 0; i < drawn.tokens.size(); ++i) {
          next.push_back(made.tree.add(drawn.tokens[i].token, parent));
          made.probs.push_back(std::move(drawn.distributions[i]));
        }
      }
      level = std::move(next);
    }
  }

  speculation::drafter_traits traits_;
  speculation::draft_distribution from_;
  std::uint32_t num_children_;
};

/// Numbers of rounds of requests with `auto`.
struct choices_of_auto {
  std::uint64_t num_rounds = 0;
  std::map<std::string, std::uint64_t> num_chosen; ///< by drafter

  void add(const draft_account& account) {
    num_rounds += account.num_rounds;
    for (const auto& one : account.candidates) num_chosen[one.drafter] += one.num_chosen;
  }
};

/// Many requests with drafter `auto`, by the real actors. Every second row of a pass is free, so a draft that
/// seems short does not pay, and one that seems long does.
void run_with_auto(const law_case& one, std::uint64_t seed, std::uint32_t together, sample& got,
                   choices_of_auto& choices) {
  simulation_options options;
  options.seed = seed;
  options.target = target_config();
  options.auto_draft_length = draft_length;
  options.max_running = seed % 2 == 0 ? 1 : 4;
  const double of_two_rows = std::array{0.3, 0.45, 0.55}[seed / 2 % 3];
  options.target_cost = [of_two_rows](std::uint64_t rows) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(1e6 * (1 + of_two_rows * (rows / 2))));
  };
  const std::uint32_t num_children = one.tree == config::tree_kind::chain ? 1 : 2;
  std::vector<simulated_drafter> drafters;
  drafters.push_back(
      {std::make_unique<trap_drafter>("trap", std::vector{0.4F, 0.35F, 0.25F}, num_children), draft_length});
  std::unique_ptr<speculation::drafter> other =
      std::make_unique<trap_drafter>("other", std::vector{0.5F, 0.3F, 0.2F}, num_children);
  if (one.asks_a_worker) other = placed(std::move(other), speculation::placement::worker);
  drafters.push_back({std::move(other), draft_length});
  simulation sim(options, std::move(drafters));
  for (std::uint32_t i = 0; i < together; ++i)
    sim.submit(request_of(one, seed * together + i), drafter_index{3});
  ASSERT_TRUE(sim.run()) << "seed " << seed;
  for (std::uint32_t i = 0; i < together; ++i) {
    const auto& client = sim.client(i);
    ASSERT_NO_FATAL_FAILURE(got.add(client.tokens)) << "seed " << seed << ", request " << i;
    got.num_drafted += client.speculation->num_draft_tokens;
    got.num_accepted += client.speculation->num_accepted_tokens;
    choices.add(*client.speculation->weighed);
  }
}

class law_of_auto : public ::testing::TestWithParam<law_case> {};

TEST_P(law_of_auto, holds_through_the_actors) {
  sample got;
  choices_of_auto choices;
  constexpr std::uint32_t together = 100;
  for (std::uint64_t seed = 0; seed * together < num_requests; ++seed)
    ASSERT_NO_FATAL_FAILURE(run_with_auto(GetParam(), seed, together, got, choices));
  expect_law(got, GetParam());
  std::uint64_t num_drafted = 0;
  for (const auto& [drafter, number] : choices.num_chosen) {
    EXPECT_GT(number, choices.num_rounds / 100) << drafter;
    num_drafted += number;
  }
  EXPECT_EQ(choices.num_chosen.size(), 2U);
  EXPECT_LT(num_drafted, choices.num_rounds * 95 / 100) << "some rounds are plain";
}

INSTANTIATE_TEST_SUITE_P(
    opposed, law_of_auto,
    ::testing::Values(
        law_case{"auto_rejection", {}}, law_case{"auto_block", {}, verification_rule::block},
        law_case{"auto_trees", {}, verification_rule::rejection, config::tree_kind::dynamic},
        law_case{"auto_of_a_worker", {}, verification_rule::rejection, config::tree_kind::chain, {}, true}),
    [](const auto& tested) { return tested.param.name; });

INSTANTIATE_TEST_SUITE_P(opposed, rejection_law, ::testing::ValuesIn(law_cases()),
                         [](const auto& tested) { return tested.param.name; });

} // namespace
} // namespace paceline::test
