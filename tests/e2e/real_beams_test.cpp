// Beam search on a real model, real threads and the whole engine: speculative, plain, and from tokens alone.
#include "engine/probe.hpp"
#include "tests/e2e/real_model.hpp"
#include "tests/engine/generation.hpp"
#include "tests/support/reference_beam_search.hpp"

#include <gtest/gtest.h>

#include <cstdio>

namespace paceline::test {
namespace {

using testing::generation;

TEST(real_beams, speculative_and_plain_beam_search_find_what_one_from_tokens_alone_finds) {
  const auto file = smollm2_file();
  if (!file) GTEST_SKIP() << "no smollm2.gguf in PACELINE_MODEL_DIR";
  const auto logits_after = logits_of_file(*file);
  auto options = real_engine_options(config::overlap_mode::off);
  std::erase_if(options.models[0].drafters,
                [](const auto& d) { return d.name != "ngram" && d.name != "itself"; });
  options.models[0].drafters[0].candidates = 4;
  options.models[0].drafters[1].tree = config::tree_kind::dynamic;
  auto started = engine::start(options);
  ASSERT_TRUE(started) << started.error().message();
  for (const std::uint32_t n : {0U, 4U, 6U}) {
    auto request = real_request(n, 1.0F, 10);
    request.beams = {.width = 3, .num_best = 3, .length_penalty = 1.0F};
    const auto wanted = search_beams(logits_after, request);
    for (const char* drafter : {"none", "ngram", "itself"}) {
      SCOPED_TRACE(::testing::Message() << drafter << ", prompt " << n);
      request.speculation.drafter = drafter;
      request.speculation.draft_length = 4;
      generation all[2]; // two at once
      for (auto& one : all) (*started)->submit(request, one.sink());
      for (auto& one : all) {
        one.wait();
        const auto last = one.last();
        ASSERT_FALSE(last.failure) << last.failure->message();
        ASSERT_EQ(last.hypotheses.size(), wanted.best.size());
        for (std::size_t i = 0; i < wanted.best.size(); ++i) {
          EXPECT_EQ(last.hypotheses[i].tokens, wanted.best[i].tokens) << "hypothesis " << i;
          EXPECT_NEAR(last.hypotheses[i].logprob, wanted.best[i].logprob, 1e-3);
        }
        EXPECT_EQ(one.tokens(), wanted.best.front().tokens);
        EXPECT_EQ(one.text(), last.hypotheses.front().text);
      }
      const auto figures = *all[0].last().speculation;
      std::printf("%-6s prompt %u: accepted %u of %u draft tokens\n", drafter, n, figures.num_accepted_tokens,
                  figures.num_draft_tokens);
      if (std::string(drafter) == "itself") {
        EXPECT_GT(figures.num_accepted_tokens, 0U);
      }
    }
  }
}

} // namespace
} // namespace paceline::test
