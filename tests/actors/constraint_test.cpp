#include "runtime/grammar/alternatives.hpp"
#include "tests/actors/requests.hpp"
#include "tests/support/cycle_constraint.hpp"
#include "tests/support/metered_constraint.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
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

/// The tokens of a request under `constraint`, with a drafter or (nullptr) without one.
std::vector<token_id> tokens_under(const std::shared_ptr<const token_constraint>& constraint,
                                   std::unique_ptr<speculation::drafter> drafter, float temperature) {
  simulation_options options;
  options.target = small_target();
  std::vector<simulated_drafter> drafters;
  const bool has_drafter = drafter != nullptr;
  const bool worker = has_drafter && drafter->traits().where == speculation::placement::worker;
  if (has_drafter) drafters.push_back({std::move(drafter), 5, worker ? 1U : 0U});
  simulation sim(options, std::move(drafters));
  auto request = request_number(0, temperature, 100);
  request.constraint = constraint;
  sim.submit(request, has_drafter ? drafter_index{1} : plain_decoding);
  EXPECT_TRUE(sim.run());
  EXPECT_EQ(sim.client(0).finish, finish_reason::length) << "plain decoding needs half of the budget";
  return sim.client(0).tokens;
}

/// Work for drafts neither ends a request nor changes its tokens, also where a constraint has other parts.
TEST_P(constrained, drafts_that_use_up_their_work_change_nothing) {
  const auto vocab_size = small_target().vocab_size;
  const auto num_exhausted = std::make_shared<std::atomic<int>>(0);
  const auto cycle = make_cycle_constraint(vocab_size);
  const auto costly = make_metered_constraint(cycle, vocab_size, {.first = 6, .per_token = 2}, num_exhausted);
  const auto either = grammar::any_alternative({costly, cycle}, vocab_size);
  const auto any = make_metered_constraint(make_free_constraint(vocab_size), vocab_size,
                                           {.first = 6, .per_token = 2}, num_exhausted);
  const auto wide = grammar::any_alternative({any, cycle}, vocab_size);
  for (const float temperature : {0.0F, 1.0F})
    for (const auto& constraint : {costly, either, wide}) {
      const auto plain = tokens_under(constraint, nullptr, temperature);
      EXPECT_EQ(*num_exhausted, 0) << "by the text";
      EXPECT_EQ(tokens_under(constraint, drafter_called(GetParam(), small_target()), temperature), plain);
      if (GetParam() == "always_wrong") {
        EXPECT_GT(*num_exhausted, 0);
      }
      *num_exhausted = 0;
    }
}

/// Allows what the cycle allows, until its work is used up behind `most` tokens.
class costly_constraint final : public token_constraint {
 public:
  costly_constraint(std::uint32_t vocab_size, std::size_t most)
      : cycle_(make_cycle_constraint(vocab_size)), vocab_size_(vocab_size), most_(most) {}
  std::unique_ptr<constraint_cursor> begin() const override {
    return std::make_unique<cursor>(cycle_->begin(), vocab_size_, most_);
  }
  std::size_t num_bytes() const noexcept override { return sizeof *this; }

 private:
  class cursor final : public constraint_cursor {
   public:
    cursor(std::unique_ptr<constraint_cursor> cycle, std::uint32_t vocab_size, std::size_t most)
        : cycle_(std::move(cycle)), nothing_((vocab_size + 31) / 32), most_(most) {}
    std::span<const std::uint32_t> allowed(std::span<const token_id> output,
                                           std::span<const token_id> path) override {
      is_exhausted_ = is_exhausted_ || output.size() >= most_;
      return is_exhausted_ ? nothing_ : cycle_->allowed(output, path);
    }
    std::size_t num_allowed(std::span<const token_id> output, std::span<const token_id> path,
                            std::span<const token_id> next) override {
      return cycle_->num_allowed(output, path, next);
    }
    std::optional<token_id> append_forced(std::span<const token_id>, std::size_t,
                                          std::vector<token_id>&) override {
      return std::nullopt;
    }
    bool is_exhausted() const noexcept override { return is_exhausted_; }

   private:
    std::unique_ptr<constraint_cursor> cycle_;
    std::vector<std::uint32_t> nothing_;
    std::size_t most_;
    bool is_exhausted_ = false;
  };

  std::shared_ptr<const token_constraint> cycle_;
  std::uint32_t vocab_size_;
  std::size_t most_;
};

TEST(exhausted_constraint, ends_its_request_alone_and_says_so) {
  simulation_options options;
  options.target = small_target();
  simulation sim(options, {});
  auto costly = request_number(0, 0.0F);
  costly.constraint = std::make_shared<costly_constraint>(options.target.vocab_size, 5);
  const auto other = request_number(1, 0.0F);
  sim.submit(costly);
  sim.submit(other);
  ASSERT_TRUE(sim.run());
  EXPECT_EQ(sim.client(0).finish, finish_reason::error);
  EXPECT_EQ(sim.client(0).tokens.size(), 5U);
  ASSERT_TRUE(sim.client(0).failure);
  EXPECT_EQ(sim.client(0).failure->code(), errc::invalid_argument);
  EXPECT_EQ(sim.client(0).failure->message(),
            "the constraint takes too much work for the text after 5 tokens");
  EXPECT_EQ(sim.client(1).tokens, decode_plainly(sim.target(), other));
}

INSTANTIATE_TEST_SUITE_P(drafters, constrained,
                         ::testing::Values("forced", "ngram", "half_right", "tree", "model", "model_other",
                                           "suffix", "twins", "lookahead", "always_wrong"),
                         [](const auto& named) { return named.param; });

} // namespace
} // namespace paceline
