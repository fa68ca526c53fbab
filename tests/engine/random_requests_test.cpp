// Random requests with every option: the reply has the same bytes with and without speculation.
// PACELINE_RANDOM_REQUESTS sets the number.
#include "engine/probe.hpp"
#include "runtime/sampling/pipeline.hpp"
#include "tests/engine/generation.hpp"
#include "tests/support/cycle_constraint.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

namespace paceline {
namespace {

using testing::generation;

constexpr std::uint32_t vocab_size = 96; ///< few tokens, so that n-grams repeat and stop strings occur

model::hash_model_config hash_config() {
  model::hash_model_config config;
  config.vocab_size = 258;
  config.memory = 3;
  config.context_length = 256;
  return config;
}

config::engine_options engine_with_drafters() {
  config::engine_options options;
  config::model_options model;
  model.name = "hash";
  model.kind = "hash";
  model.hash.vocab_size = 258;
  model.hash.memory = 3;
  model.context_length = 256;
  model.max_running = 64;
  for (const char* name : {"ngram", "mixed"}) {
    config::drafter_options drafter;
    drafter.name = drafter.kind = name;
    model.drafters.push_back(drafter);
  }
  options.models.push_back(model);
  options.threads = 1;
  return options;
}

/// The built-in kinds, and "mixed": right at two positions of three.
speculation::drafter_registry registry() {
  auto made = speculation::drafter_registry::with_built_in();
  made.add("mixed",
           [](const speculation::drafter_parts& parts) -> expected<std::unique_ptr<speculation::drafter>> {
             const auto target = std::make_shared<model::hash_model>(hash_config());
             const auto right = test::own_sample(
                 [target](std::span<const token_id> context) { return target->logits_after(context); });
             return test::make_scripted_drafter(
                 parts.options.name,
                 [right, wrong = test::contradict(right, 258)](const auto& task, auto path) {
                   return (task.tokens.size() + path.size()) % 3 == 0 ? wrong(task, path) : right(task, path);
                 });
           });
  return made;
}

class request_maker {
 public:
  explicit request_maker(std::uint64_t seed) : random_(seed) {}

  generation_request operator()() {
    generation_request r;
    const auto length = 1 + below(20);
    for (std::uint64_t i = 0; i < length; ++i) r.prompt.push_back(token());
    sampling_params& s = r.sampling;
    s.temperature = pick({0.0F, 0.0F, 0.5F, 1.0F, 1.5F});
    s.top_k = pick({0, 0, 1, 5, 40});
    s.top_p = pick({1.0F, 1.0F, 0.9F, 0.4F});
    s.min_p = pick({0.0F, 0.0F, 0.1F});
    s.repetition_penalty = pick({1.0F, 1.0F, 1.3F, 0.8F});
    s.presence_penalty = pick({0.0F, 0.0F, 0.7F, -0.7F});
    s.frequency_penalty = pick({0.0F, 0.0F, 0.5F, -0.5F});
    for (auto n = below(3) == 0 ? below(6) : 0; n > 0; --n)
      s.logit_bias.emplace_back(token(), static_cast<float>(below(21)) - 10.0F);
    auto& biases = s.logit_bias.edit();
    std::ranges::sort(biases, {}, [](const auto& b) { return b.first.value; });
    const auto same = std::ranges::unique(biases, {}, [](const auto& b) { return b.first.value; });
    biases.erase(same.begin(), same.end());
    s.seed = random_();
    s.choice_index = static_cast<std::uint32_t>(below(3));
    if (below(3) == 0) s.num_logprobs = static_cast<std::uint32_t>(below(5));
    s.prompt_logprobs = s.num_logprobs && below(4) == 0;
    stop_params& e = r.stop;
    e.max_tokens = 1 + static_cast<std::uint32_t>(below(24));
    e.min_tokens = below(3) == 0 ? static_cast<std::uint32_t>(below(e.max_tokens + 1)) : 0;
    e.ignore_eos = below(2) == 0;
    for (auto n = below(3); n > 0; --n) e.stop_ids.push_back(token());
    std::ranges::sort(e.stop_ids, {}, &token_id::value);
    for (auto n = below(3); n > 0; --n) e.stop_strings.push_back(text());
    e.include_stop_string = below(2) == 0;
    if (below(10) == 0) r.first_target = token();
    if (below(4) == 0) { // the constraint says when an output ends and what it begins with
      r.constraint = constraint_;
      r.first_target.reset();
      e.min_tokens = 0;
      e.ignore_eos = false;
    }
    return r;
  }

  std::string drafter() { return pick<const char*>({"ngram", "mixed", "mixed", "auto"}); }
  std::uint32_t draft_length() { return 1 + static_cast<std::uint32_t>(below(8)); }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  token_id token() { return token_id{static_cast<std::int32_t>(32 + below(vocab_size))}; }
  std::string text() {
    std::string out;
    for (auto n = 1 + below(2); n > 0; --n) out += static_cast<char>(32 + below(vocab_size - 1));
    return out;
  }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }

  std::mt19937_64 random_;
  std::shared_ptr<const token_constraint> constraint_ = test::make_cycle_constraint(258);
};

std::string describe(const generation_request& r) {
  const auto& s = r.sampling;
  return "prompt " + std::to_string(r.prompt.size()) + " temperature " + std::to_string(s.temperature) +
         " top_k " + std::to_string(s.top_k) + " top_p " + std::to_string(s.top_p) + " min_p " +
         std::to_string(s.min_p) + " penalties " + std::to_string(s.repetition_penalty) + " " +
         std::to_string(s.presence_penalty) + " " + std::to_string(s.frequency_penalty) + " bias " +
         std::to_string(s.logit_bias.size()) + " tokens " + std::to_string(r.stop.min_tokens) + " to " +
         std::to_string(r.stop.max_tokens) + " seed " + std::to_string(s.seed) +
         (r.constraint ? " constrained" : "") + " drafter " + r.speculation.drafter + "/" +
         std::to_string(r.speculation.draft_length.value_or(0));
}

bool same(const token_logprob& a, const token_logprob& b) {
  return a.token == b.token && a.logprob == b.logprob && a.top == b.top;
}

/// Equal in everything that a client can see.
void expect_same_reply(const generation& a, const generation& b) {
  ASSERT_EQ(a.tokens(), b.tokens());
  ASSERT_EQ(a.text(), b.text());
  ASSERT_EQ(a.last().finish, b.last().finish);
  ASSERT_TRUE(std::ranges::equal(a.logprobs(), b.logprobs(), same));
  ASSERT_TRUE(std::ranges::equal(a.prompt_logprobs(), b.prompt_logprobs(), same));
  ASSERT_FALSE(a.has_gap() || b.has_gap());
}

/// Log-probabilities are those of the model: bias, penalties and temperature affect the choice of tokens but
/// not them.
void expect_logprobs_of_the_model(const model::hash_model& target, const generation_request& r,
                                  const generation& reply) {
  std::vector<token_id> context = r.prompt;
  for (const auto& said : reply.logprobs()) {
    const auto logits = target.logits_after(context);
    const auto raw = sampling::log_softmax_of(logits, said.token, *r.sampling.num_logprobs);
    ASSERT_TRUE(same(said, {said.token, raw.chosen, raw.top}))
        << "token " << context.size() - r.prompt.size();
    context.push_back(said.token);
  }
}

TEST(random_requests, give_the_same_reply_with_and_without_speculation) {
  const char* const wanted = std::getenv("PACELINE_RANDOM_REQUESTS");
  const std::uint32_t num_requests =
      wanted != nullptr ? static_cast<std::uint32_t>(std::atoi(wanted)) : 20'000;
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  request_maker make(seed);
  const model::hash_model target(hash_config());
  auto started = engine_probe::start(engine_with_drafters(), registry());
  ASSERT_TRUE(started) << started.error().message();
  std::uint64_t drafted = 0, accepted = 0, stopped = 0;
  constexpr std::uint32_t at_once = 64;
  for (std::uint32_t done = 0; done < num_requests; done += at_once) {
    std::vector<generation_request> requests;
    std::vector<generation> plain(at_once), speculative(at_once);
    for (std::uint32_t i = 0; i < at_once; ++i) {
      requests.push_back(make());
      auto& r = requests.back();
      r.speculation.drafter = "none";
      (*started)->submit(r, plain[i].sink());
      r.speculation.drafter = make.drafter();
      r.speculation.draft_length = make.draft_length();
      (*started)->submit(r, speculative[i].sink());
    }
    for (std::uint32_t i = 0; i < at_once; ++i) {
      plain[i].wait(), speculative[i].wait();
      SCOPED_TRACE(describe(requests[i]));
      ASSERT_NE(plain[i].last().finish, finish_reason::error) << plain[i].last().failure->message();
      expect_same_reply(plain[i], speculative[i]);
      expect_logprobs_of_the_model(target, requests[i], plain[i]);
      drafted += speculative[i].last().speculation->num_draft_tokens;
      accepted += speculative[i].last().speculation->num_accepted_tokens;
      stopped += plain[i].last().finish == finish_reason::stop ? 1 : 0;
    }
  }
  EXPECT_GT(accepted, num_requests) << "drafts were kept";
  EXPECT_GT(drafted, accepted + num_requests / 2) << "drafts were refused";
  EXPECT_GT(stopped, num_requests / 20);
  EXPECT_LT(stopped, num_requests * 9 / 10);
}

} // namespace
} // namespace paceline
