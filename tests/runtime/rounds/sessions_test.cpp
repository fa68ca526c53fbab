// What the sessions of drafters are told: the target's best tokens, and the end of their request.
#include "tests/runtime/rounds/rounds.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace paceline::rounds {

using namespace scheduling;
namespace {

using namespace test_support;
using speculation::draft_task;

/// Proposes nothing, and compares what it is told with the model.
class listening_drafter final : public speculation::drafter {
 public:
  struct heard {
    std::vector<std::vector<token_id>> ended; ///< tokens of requests that are over
    std::uint32_t num_rounds = 0;             ///< whose best tokens it was told
    std::vector<std::string> wrong;
  };
  explicit listening_drafter(std::shared_ptr<heard> out)
      : target_(test::small_target(128)), out_(std::move(out)) {
    traits_.name = "listening";
    traits_.top_tokens = 2;
  }
  const speculation::drafter_traits& traits() const noexcept override { return traits_; }
  std::unique_ptr<speculation::drafter_session> open(request_id) override {
    return std::make_unique<session>(out_);
  }
  void propose(device::ops&, model::kv_storage*, std::span<draft_task> tasks) override {
    for (auto& task : tasks)
      if (task.last_round && task.last_round->verified.base_length > task.prompt_length)
        check(task, *task.last_round);
  }

 private:
  struct session final : speculation::drafter_session {
    explicit session(std::shared_ptr<heard> to) : out(std::move(to)) {}
    void end(const speculation::ended_request& request) noexcept override {
      out->ended.emplace_back(request.tokens.begin(), request.tokens.end());
    }
    std::shared_ptr<heard> out;
  };

  void check(const draft_task& task, const speculation::round_feedback& last) {
    const auto at = " at " + std::to_string(task.tokens.size());
    if (last.num_top < traits_.top_tokens) return out_->wrong.push_back("told nothing" + at);
    ++out_->num_rounds;
    const auto logits = target_.logits_after(task.tokens.first(last.verified.base_length));
    const auto best = std::ranges::max_element(logits) - logits.begin();
    if (last.top_at(speculation::token_tree::root).front().value != best)
      out_->wrong.push_back("best token" + at);
  }

  model::hash_model target_;
  std::shared_ptr<heard> out_;
  speculation::drafter_traits traits_;
};

generation_request request_number(std::uint32_t n, float temperature) {
  generation_request r;
  for (std::uint32_t i = 0; i < 5 + 3 * n; ++i)
    r.prompt.emplace_back(static_cast<std::int32_t>((i * 11 + n * 17) % 60));
  r.stop.max_tokens = 30 + n;
  r.stop.ignore_eos = true;
  r.sampling.temperature = temperature;
  r.sampling.seed = 77 + n;
  return r;
}

/// The reports to drafter 2; drafter 1 is `ngram`, 3 is "auto".
listening_drafter::heard listen(std::span<const generation_request> requests, drafter_index drafter,
                                std::vector<std::vector<token_id>>& texts) {
  const auto out = std::make_shared<listening_drafter::heard>();
  std::vector<std::unique_ptr<speculation::drafter>> drafters;
  drafters.push_back(test::built_in(test::options_of("ngram", "ngram"), 64));
  drafters.push_back(std::make_unique<listening_drafter>(out));
  lone_rounds device(
      test::small_target(128), [](std::size_t rows) { return std::chrono::microseconds(100 + rows); },
      std::move(drafters));
  for (const auto& request : requests) device.submit(request, drafter, 4);
  device.run();
  EXPECT_EQ(device.num_wrong, 0U);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto tokens = device.request(i).tokens();
    texts.emplace_back(tokens.begin(), tokens.end());
  }
  EXPECT_TRUE(out->ended.empty()) << "they are told when the request goes";
  device.forget();
  return *out;
}

TEST(sessions, are_told_all_tokens_of_an_ended_request) {
  for (const drafter_index drafter : {drafter_index{2}, drafter_index{3}}) {
    const std::vector requests{request_number(0, 1.0F), request_number(1, 0.0F), request_number(2, 1.0F)};
    std::vector<std::vector<token_id>> texts;
    EXPECT_EQ(listen(requests, drafter, texts).ended, texts) << "drafter " << drafter.value;
    EXPECT_EQ(texts.front().size(), 5U + 30);
  }
}

TEST(sessions, of_a_beam_search_are_told_its_best_hypothesis_once) {
  std::vector requests{request_number(0, 1.0F), request_number(1, 1.0F)};
  for (auto& request : requests) request.beams = {.width = 3, .num_best = 1, .length_penalty = 1};
  std::vector<std::vector<token_id>> texts;
  EXPECT_EQ(listen(requests, drafter_index{2}, texts).ended, texts);
}

TEST(sessions, of_candidates_of_auto_are_told_the_targets_best_tokens_whoever_drafted) {
  const std::vector requests{request_number(0, 1.0F), request_number(1, 0.0F)};
  std::vector<std::vector<token_id>> texts;
  const auto out = listen(requests, drafter_index{3}, texts);
  EXPECT_EQ(out.wrong, std::vector<std::string>{});
  EXPECT_GT(out.num_rounds, 30U);
}

} // namespace
} // namespace paceline::rounds
