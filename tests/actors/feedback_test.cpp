#include "tests/actors/requests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace paceline {
namespace {

using namespace test;
using speculation::draft_task;
using speculation::token_tree;

/// What the drafter was told, and the errors that it found in this.
struct told {
  std::uint32_t num_tasks = 0;
  std::uint32_t num_first = 0;      ///< tasks without a previous round
  std::uint32_t num_probe_rows = 0; ///< rows of probes whose best tokens were right
  std::uint32_t num_accepted = 0;
  std::vector<std::string> wrong;
};

/// Drafts the right token as the second of two siblings, a wrong one below it, and two probe chains that
/// reach beyond the draft. Compares the reported results of every round with the model itself.
class curious_drafter final : public speculation::drafter {
 public:
  curious_drafter(const model::hash_model_config& target, std::uint32_t num_top, std::shared_ptr<told> out)
      : target_(target), out_(std::move(out)),
        right_(
            own_sample([this](std::span<const token_id> context) { return target_.logits_after(context); })) {
    traits_.name = "curious";
    traits_.top_tokens = num_top;
  }
  const speculation::drafter_traits& traits() const noexcept override { return traits_; }
  std::unique_ptr<speculation::drafter_session> open(request_id) override {
    return std::make_unique<speculation::drafter_session>();
  }
  std::uint32_t max_nodes(std::uint32_t) const noexcept override { return 8; }
  std::uint32_t max_probes() const noexcept override { return 4; }

  void propose(device::ops&, model::kv_storage*, std::span<draft_task> tasks) override {
    for (auto& task : tasks) {
      ++out_->num_tasks;
      if (task.last_round)
        check(task, *task.last_round);
      else
        ++out_->num_first;
      task.result = {.base_length = static_cast<std::uint32_t>(task.tokens.size())};
      draft_one(task);
      proposed_[task.request] = task.result;
    }
  }

 private:
  static token_id other(token_id token) { return token_id{(token.value + 1) % 64}; }

  void draft_one(draft_task& task) {
    auto& tree = task.result.tree;
    const auto first = right_(task, {});
    tree.add(other(first), token_tree::root);
    const auto good = tree.add(first, token_tree::root);
    if (task.draft_length >= 2) tree.add(other(right_(task, std::array{first})), good);
    std::int32_t row = token_tree::root;
    const auto has_room = [&] { return task.result.num_rows() < task.max_rows; };
    for (std::int32_t i = 0; i < 3 && has_room(); ++i)
      if (static_cast<std::uint32_t>(i) < task.max_probe_depth)
        row = task.result.add_probe(token_id{40 + i}, row);
    if (has_room()) task.result.add_probe(token_id{50}, good); // below a verified node
  }

  void check(const draft_task& task, const speculation::round_feedback& last) {
    const auto wrong = [&](const std::string& what) {
      out_->wrong.push_back(to_string(task.request) + " at " + std::to_string(task.tokens.size()) + ": " +
                            what);
    };
    const std::size_t base = last.verified.base_length;
    const auto& tree = last.verified.tree;
    if (base + last.accepted_path.size() + 1 != task.tokens.size()) return wrong("not of the last round");
    for (std::size_t i = 0; i < last.accepted_path.size(); ++i)
      if (tree.tokens()[static_cast<std::size_t>(last.accepted_path[i])] != task.tokens[base + i])
        wrong("accepted");
    out_->num_accepted += static_cast<std::uint32_t>(last.accepted_path.size());
    const auto proposed = proposed_.find(task.request);
    if (proposed != proposed_.end() &&
        proposed->second.base_length == base && // otherwise it was drafted elsewhere or truncated
        !std::ranges::equal(proposed->second.tree.tokens().first(tree.size()), tree.tokens()))
      wrong("another tree");
    if (tree.empty()) return; // the prompt's round had no drafter
    if (last.num_top != traits_.top_tokens) return wrong("num_top");
    if (last.num_top == 0) return;
    const auto token_at = [&](std::int32_t row) {
      const auto at = static_cast<std::size_t>(row);
      return at < tree.size() ? tree.tokens()[at] : last.verified.probes[at - tree.size()].token;
    };
    const auto num_rows = static_cast<std::int32_t>(last.verified.num_rows());
    for (std::int32_t node = token_tree::root; node < num_rows; ++node) {
      std::vector<token_id> context(task.tokens.begin(),
                                    task.tokens.begin() + static_cast<std::ptrdiff_t>(base));
      if (node != token_tree::root)
        for (auto at : last.verified.path_to(node)) context.push_back(token_at(at));
      const auto logits = target_.logits_after(context);
      std::vector<std::int32_t> order(logits.size());
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, std::greater<>(),
                               [&](auto t) { return logits[static_cast<std::size_t>(t)]; });
      for (std::uint32_t i = 0; i < last.num_top; ++i)
        if (last.top_at(node)[i].value != order[i])
          wrong("top token " + std::to_string(i) + " of node " + std::to_string(node));
      if (node >= static_cast<std::int32_t>(tree.size())) ++out_->num_probe_rows;
    }
  }

  model::hash_model target_;
  std::shared_ptr<told> out_;
  next_token right_;
  speculation::drafter_traits traits_;
  std::map<request_id, speculation::draft> proposed_;
};

struct feedback_case {
  speculation::placement where;
  bool two_groups;
  float temperature;
};

class feedback : public ::testing::TestWithParam<feedback_case> {};

TEST_P(feedback, a_drafter_learns_what_each_round_decided_and_probes_change_nothing) {
  const auto& param = GetParam();
  for (const std::uint32_t concurrency : {1U, 3U}) {
    simulation_options options;
    options.seed = 50 + concurrency;
    options.shuffle = true;
    options.two_groups = param.two_groups;
    options.num_partitions = param.two_groups ? 2 : 1;
    options.target = small_target();
    SCOPED_TRACE("seed " + std::to_string(options.seed));
    const auto out = std::make_shared<told>();
    std::vector<simulated_drafter> drafters;
    drafters.push_back(
        {placed(std::make_unique<curious_drafter>(small_target(), 3, out), param.where), 4, 1});
    simulation sim(options, std::move(drafters));
    std::vector<generation_request> requests;
    for (std::uint32_t n = 0; n < concurrency; ++n) {
      requests.push_back(request_number(n, param.temperature));
      sim.submit(requests.back(), drafter_index{1});
    }
    ASSERT_TRUE(sim.run());
    for (std::uint32_t n = 0; n < concurrency; ++n) {
      EXPECT_EQ(sim.client(n).tokens, decode_plainly(sim.target(), requests[n])) << "request " << n;
      const auto& stats = *sim.client(n).speculation;
      EXPECT_LE(stats.num_draft_tokens, 3 * stats.num_rounds) << "probes are not draft tokens";
      EXPECT_GT(stats.num_accepted_tokens, 0U);
    }
    EXPECT_EQ(out->wrong, std::vector<std::string>{});
    EXPECT_GT(out->num_tasks, 3 * concurrency);
    EXPECT_GT(out->num_probe_rows, concurrency);
    EXPECT_GT(out->num_accepted, concurrency);
    EXPECT_EQ(sim.check_invariants(), "");
    EXPECT_EQ(sim.scheduler().counters().stale_drafts, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(placements, feedback,
                         ::testing::Values(feedback_case{speculation::placement::in_line, false, 0},
                                           feedback_case{speculation::placement::in_line, false, 1},
                                           feedback_case{speculation::placement::in_pass, false, 1},
                                           feedback_case{speculation::placement::worker, false, 1},
                                           feedback_case{speculation::placement::worker, true, 0},
                                           feedback_case{speculation::placement::worker, true, 1}));

TEST(feedback_without_top_tokens, the_draft_and_what_was_kept_are_told_all_the_same) {
  simulation_options options;
  options.target = small_target();
  const auto out = std::make_shared<told>();
  std::vector<simulated_drafter> drafters;
  drafters.push_back({std::make_unique<curious_drafter>(small_target(), 0, out), 4, 0});
  simulation sim(options, std::move(drafters));
  const auto request = request_number(2, 1.0F);
  sim.submit(request, drafter_index{1});
  ASSERT_TRUE(sim.run());
  EXPECT_EQ(sim.client(0).tokens, decode_plainly(sim.target(), request));
  EXPECT_EQ(out->wrong, std::vector<std::string>{});
  EXPECT_GT(out->num_accepted, 0U);
}

TEST(probes, stay_inside_the_context) {
  simulation_options options;
  options.target = small_target();
  options.context_length = 30;
  const auto out = std::make_shared<told>();
  std::vector<simulated_drafter> drafters;
  drafters.push_back({std::make_unique<curious_drafter>(small_target(), 1, out), 4, 0});
  simulation sim(options, std::move(drafters));
  auto request = request_number(0, 1.0F, 1000);
  sim.submit(request, drafter_index{1});
  ASSERT_TRUE(sim.run());
  request.stop.max_tokens = static_cast<std::uint32_t>(30 - request.prompt.size());
  EXPECT_EQ(sim.client(0).tokens, decode_plainly(sim.target(), request));
  EXPECT_EQ(out->wrong, std::vector<std::string>{});
  EXPECT_EQ(sim.scheduler().counters().stale_drafts, 0U) << "a refused draft counts as stale";
}

} // namespace
} // namespace paceline
