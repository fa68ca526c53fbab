// Drafter "auto" over drafters in the target's pass, in virtual time.
#include "tests/runtime/scheduling/rounds.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <random>

namespace paceline::scheduling {
namespace {

using namespace test_support;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

/// With a short memory, so that long texts are quickly computed.
model::hash_model_config forgetful_target(std::uint32_t memory) {
  model::hash_model_config target;
  target.vocab_size = 64;
  target.memory = memory;
  target.context_length = 2048;
  return target;
}

/// Drafts in the pass: its chains are right in `percent` of the places once its probes have been in the
/// passes of late, and wrong else.
class probing_drafter final : public speculation::drafter {
 public:
  static constexpr std::uint32_t num_probes = 8;
  explicit probing_drafter(std::uint32_t percent)
      : right_(test::own_sample([same = std::make_shared<model::hash_model>(forgetful_target(12))](
                                    auto context) { return same->logits_after(context); })),
        wrong_(test::contradict(right_, 64)), percent_(percent) {
    traits_.name = "probing";
    traits_.where = speculation::placement::in_pass;
  }
  const speculation::drafter_traits& traits() const noexcept override { return traits_; }
  std::unique_ptr<speculation::drafter_session> open(request_id) override {
    return std::make_unique<session>();
  }
  std::uint32_t max_nodes(std::uint32_t length) const noexcept override { return length + num_probes; }

  void propose(device::ops&, model::kv_storage*, std::span<speculation::draft_task> tasks) override {
    for (auto& task : tasks) {
      auto& known = dynamic_cast<session&>(*task.session);
      const auto* last = task.last_round;
      const bool carried =
          last && last->verified.base_length == known.base && last->verified.num_probes == num_probes;
      known.num_carried = carried ? known.num_carried + 1 : known.num_carried / 2;
      known.base = static_cast<std::uint32_t>(task.tokens.size());
      task.result = {.base_length = known.base};
      draft_one(task, known.num_carried >= 4);
    }
  }

 private:
  struct session final : speculation::drafter_session {
    std::uint32_t base = 0, num_carried = 0;
  };

  void draft_one(speculation::draft_task& task, bool warm) {
    auto& tree = task.result.tree;
    std::vector<token_id> path;
    while (path.size() < task.draft_length) {
      std::mt19937 noise(
          static_cast<std::uint32_t>(1000 * task.request.value + task.tokens.size() + path.size()));
      const bool good = warm && noise() % 100 < percent_;
      path.push_back(good ? right_(task, path) : wrong_(task, path));
      tree.add(path.back(), static_cast<std::int32_t>(tree.size()) - 1);
    }
    if (tree.size() + num_probes > task.max_nodes) return;
    for (std::uint32_t i = 0; i < num_probes; ++i)
      tree.add(token_id{static_cast<std::int32_t>(i)}, speculation::token_tree::root);
    task.result.num_probes = num_probes;
  }

  test::next_token right_, wrong_;
  std::uint32_t percent_;
  speculation::drafter_traits traits_;
};

/// A pass takes 3 ms and this a row.
metered_model::cost cost_of(microseconds row) {
  return [row](std::size_t rows) { return microseconds(3000) + row * rows; };
}

generation_request request_number(std::uint32_t n, float temperature, std::uint32_t max_tokens) {
  generation_request r;
  for (std::uint32_t i = 0; i < 5 + 3 * n; ++i)
    r.prompt.emplace_back(static_cast<std::int32_t>((i * 11 + n * 17) % 60));
  r.stop.max_tokens = max_tokens;
  r.stop.ignore_eos = true;
  r.sampling.temperature = temperature;
  r.sampling.seed = 77 + n;
  return r;
}

struct in_pass_case {
  std::uint32_t percent = 0;
  microseconds row{100};
};

/// Time of requests whose drafter is "none" (0), the one in the pass with drafts of `length`, or "auto"
/// (`length` 0).
nanoseconds time_with(in_pass_case tested, bool none, std::uint32_t length, std::uint32_t num_requests) {
  std::vector<std::unique_ptr<speculation::drafter>> drafters;
  drafters.push_back(test::built_in(test::options_of("ngram", "ngram"), 64));
  drafters.push_back(std::make_unique<probing_drafter>(tested.percent));
  rounds device(forgetful_target(12), cost_of(tested.row), std::move(drafters));
  for (std::uint32_t n = 0; n < num_requests; ++n)
    device.submit(request_number(n, 1.0F, 1500),
                  none         ? 0
                  : length > 0 ? 2
                               : device.automatic(),
                  length > 0 ? length : 8);
  const auto time = device.run();
  EXPECT_EQ(device.num_wrong, 0U);
  return time;
}

class auto_in_pass : public ::testing::TestWithParam<in_pass_case> {};

/// Including what it takes to find out.
TEST_P(auto_in_pass, is_about_as_fast_as_the_best_fixed_length_and_never_slower_than_none) {
  for (const std::uint32_t num_requests : {1U, 4U}) {
    const auto plain = time_with(GetParam(), true, 1, num_requests);
    auto best = plain;
    for (const std::uint32_t length : {1U, 2U, 4U, 8U})
      if (GetParam().percent > 0) best = std::min(best, time_with(GetParam(), false, length, num_requests));
    const auto chosen = time_with(GetParam(), false, 0, num_requests);
    const auto describe = [&] {
      return ::testing::Message() << num_requests << " requests: plain " << plain.count() / 1e6
                                  << " ms, best " << best.count() / 1e6 << " ms, auto "
                                  << chosen.count() / 1e6 << " ms";
    };
    EXPECT_LE(static_cast<double>(chosen.count()), 1.03 * static_cast<double>(best.count())) << describe();
    EXPECT_LE(static_cast<double>(chosen.count()), 1.02 * static_cast<double>(plain.count())) << describe();
  }
}

INSTANTIATE_TEST_SUITE_P(
    drafters, auto_in_pass,
    ::testing::Values(in_pass_case{100, microseconds(100)}, in_pass_case{100, microseconds(1000)},
                      in_pass_case{70, microseconds(100)}, in_pass_case{70, microseconds(300)},
                      in_pass_case{30, microseconds(100)}, in_pass_case{0, microseconds(100)},
                      in_pass_case{0, microseconds(1000)}, in_pass_case{0, microseconds(3000)}),
    [](const auto& tested) {
      return std::to_string(tested.param.percent) + "_percent_right_" +
             std::to_string(tested.param.row.count()) + "us_a_row";
    });

/// The real one, over texts in which it finds something: of a target that looks at few tokens.
nanoseconds time_of_lookahead(std::uint32_t memory, float temperature, bool none, std::uint32_t length) {
  std::vector<std::unique_ptr<speculation::drafter>> drafters;
  drafters.push_back(test::built_in(test::options_of("lookahead", "lookahead"), 64));
  rounds device(forgetful_target(memory), cost_of(microseconds(100)), std::move(drafters));
  const auto request = request_number(0, temperature, 1500);
  device.submit(request, none ? 0 : length > 0 ? 1 : device.automatic(), length > 0 ? length : 5);
  const auto time = device.run();
  EXPECT_EQ(device.num_wrong, 0U);
  return time;
}

TEST(auto_of_lookahead, is_about_as_fast_as_the_best_fixed_length_and_never_slower_than_none) {
  for (const std::uint32_t memory : {1U, 2U, 12U})
    for (const float temperature : {0.0F, 1.0F}) {
      const auto plain = time_of_lookahead(memory, temperature, true, 1);
      auto best = plain;
      for (const std::uint32_t length : {1U, 2U, 3U, 5U})
        best = std::min(best, time_of_lookahead(memory, temperature, false, length));
      const auto chosen = time_of_lookahead(memory, temperature, false, 0);
      const auto describe = [&] {
        return ::testing::Message() << "memory " << memory << ", temperature " << temperature << ": plain "
                                    << plain.count() / 1e6 << " ms, best " << best.count() / 1e6
                                    << " ms, auto " << chosen.count() / 1e6 << " ms";
      };
      EXPECT_LE(static_cast<double>(chosen.count()), 1.03 * static_cast<double>(best.count())) << describe();
      EXPECT_LE(static_cast<double>(chosen.count()), 1.02 * static_cast<double>(plain.count())) << describe();
    }
}

} // namespace
} // namespace paceline::scheduling
