// A request's reply does not depend on where target and drafter compute. The GPU is the emulation, whose
// results are those of the CPU to the bit.
#include "config/engine_options.hpp"
#include "engine/probe.hpp"
#include "engine/snapshot.hpp"
#include "runtime/device/ops.hpp"
#include "tests/engine/emulated_gpu.hpp"
#include "tests/engine/generation.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

namespace paceline {
namespace {

using emulated_gpu = testing::emulated_gpu<>;
using testing::generation;
using testing::make_request;

class engine_on_devices : public ::testing::Test {
 protected:
  engine_on_devices() {
    test::make_tiny_gguf(
        {.arch = model::architecture::llama, .type = device::tensor_type::q4_0, .context_length = 128})
        .write(path_);
  }

  config::engine_options options(const std::string& target, const std::string& drafter) const {
    config::engine_options out;
    out.threads = 1;
    auto& model = out.models.emplace_back();
    model.name = "tiny";
    model.path = path_;
    model.device = target;
    auto& draft = model.drafters.emplace_back();
    draft.name = "same";
    draft.kind = "model";
    draft.path = path_;
    draft.device = drafter;
    draft.draft_length = 3;
    model.default_drafter = "same";
    return out;
  }

  struct said {
    std::vector<token_id> tokens;
    std::string text;
    friend bool operator==(const said&, const said&) = default;
  };

  /// The replies of two simultaneous requests.
  std::vector<said> answers(const config::engine_options& options, emulated_gpu& gpu,
                            const std::string& drafter = "same") {
    auto engine = engine_probe::start(options, speculation::drafter_registry::with_built_in(), gpu.opener());
    if (!engine) {
      ADD_FAILURE() << engine.error().message();
      return {};
    }
    std::vector<generation> all(2);
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      auto request = make_request(4 + i, 12, i, i == 0 ? 0.0F : 1.0F);
      request.speculation.drafter = drafter;
      (*engine)->submit(std::move(request), all[i].sink());
    }
    std::vector<said> out;
    for (auto& g : all) {
      g.wait();
      EXPECT_NE(g.last().finish, finish_reason::error) << g.last().failure->message();
      out.push_back({g.tokens(), g.text()});
    }
    const auto counters = snapshot_at_rest(**engine).models.at(0);
    EXPECT_EQ(counters.drafters.at(0).num_accepted_tokens > 0, drafter == "same");
    return out;
  }

  test::scratch_folder folder_;
  std::filesystem::path path_ = folder_ / "tiny.gguf";
};

TEST_F(engine_on_devices, say_the_same_wherever_target_and_drafter_compute) {
  emulated_gpu gpu;
  const auto expected = answers(options("cpu", "auto"), gpu);
  ASSERT_EQ(expected.size(), 2U);
  EXPECT_EQ(expected[0].tokens.size(), 12U);
  EXPECT_EQ(gpu.num_opened, 0);
  EXPECT_EQ(answers(options("cuda:0/reference", "auto"), gpu), expected);
  EXPECT_GT(gpu.runtime.num_calls("cudaLaunchKernel"), 100U);
  EXPECT_GT(gpu.runtime.num_calls("cudaGraphLaunch"), 3U) << "rounds that come again are graphs";
  EXPECT_EQ(answers(options("cuda:0/reference", "cpu"), gpu), expected);
  EXPECT_EQ(answers(options("cpu", "cuda:0/reference"), gpu), expected);
  EXPECT_EQ(gpu.num_opened, 3);
  EXPECT_EQ(gpu.runtime.num_owned(), 0U) << "an engine gives everything back";
}

TEST_F(engine_on_devices, each_memory_has_a_budget_of_its_own) {
  emulated_gpu gpu;
  auto apart = options("cpu", "cuda:0/reference");
  const auto expected = answers(apart, gpu);
  apart.memory_budget_bytes = 64 * 256; // a request of full length in one model
  auto together = options("cpu", "cpu");
  together.memory_budget_bytes = apart.memory_budget_bytes;
  const auto refused =
      engine_probe::start(together, speculation::drafter_registry::with_built_in(), gpu.opener());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("it takes 32768 bytes"), std::string::npos)
      << refused.error().message();
  EXPECT_EQ(answers(apart, gpu), expected) << "a request in each fits";
}

TEST_F(engine_on_devices, tokens_chosen_by_the_device_are_those_that_the_host_would_choose) {
  for (const char* drafter : {"none", "same"}) {
    std::vector<std::vector<token_id>> tokens[2];
    std::vector<std::string> texts[2];
    std::vector<std::vector<token_logprob>> logprobs[2];
    for (const bool on_gpu : {false, true}) {
      emulated_gpu gpu;
      auto engine = engine_probe::start(options(on_gpu ? "cuda:0/reference" : "cpu", "auto"),
                                        speculation::drafter_registry::with_built_in(), gpu.opener());
      ASSERT_TRUE(engine) << engine.error().message();
      auto requests = testing::requests_of_all_kinds();
      requests.push_back(make_request(5, 8, 20));
      requests.back().beams.width = 2;
      std::vector<generation> all(requests.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        auto& how = requests[i].speculation; // replies with `rejection` depend on where rounds begin
        how.drafter = how.rule == verification_rule::rejection ? "none" : drafter;
        (*engine)->submit(std::move(requests[i]), all[i].sink());
      }
      for (auto& g : all) {
        g.wait();
        ASSERT_NE(g.last().finish, finish_reason::error) << g.last().failure->message();
        tokens[on_gpu].push_back(g.tokens());
        texts[on_gpu].push_back(g.text());
        logprobs[on_gpu].push_back(g.logprobs());
      }
    }
    EXPECT_EQ(tokens[1], tokens[0]) << drafter;
    EXPECT_EQ(texts[1], texts[0]) << drafter;
    for (std::size_t i = 0; i < logprobs[0].size(); ++i) {
      ASSERT_EQ(logprobs[1][i].size(), logprobs[0][i].size());
      for (std::size_t k = 0; k < logprobs[0][i].size(); ++k)
        EXPECT_EQ(logprobs[1][i][k].logprob, logprobs[0][i][k].logprob);
    }
  }
}

TEST_F(engine_on_devices, a_round_brings_a_few_bytes_of_each_request_to_the_host) {
  constexpr std::uint32_t num_tokens = 12, vocab_bytes = 288 * sizeof(float);
  const auto bytes_for = [&](const auto& change) {
    emulated_gpu gpu;
    auto engine = engine_probe::start(options("cuda:0", "cpu"),
                                      speculation::drafter_registry::with_built_in(), gpu.opener());
    EXPECT_TRUE(engine) << engine.error().message();
    const auto before = gpu.runtime.num_bytes_out();
    std::vector<generation> all(2);
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      auto request = make_request(5, num_tokens, i, 1);
      request.speculation.drafter = "same";
      change(request);
      (*engine)->submit(std::move(request), all[i].sink());
    }
    for (auto& g : all) {
      g.wait();
      EXPECT_EQ(g.tokens().size(), num_tokens);
    }
    return gpu.runtime.num_bytes_out() - before;
  };
  for (const std::int32_t top_k : {0, 40}) {
    const auto decided_there = bytes_for(
        [&](generation_request& r) { r.sampling.top_k = top_k, r.sampling.top_p = top_k > 0 ? 0.9F : 1.0F; });
    EXPECT_GT(decided_there, 0U);
    EXPECT_LE(decided_there, std::uint64_t{2} * num_tokens * 12) << "no logits: 12 bytes a round and request";
  }
  EXPECT_GE(bytes_for([](generation_request& r) { r.sampling.top_p = 0.9F; }),
            std::uint64_t{2} * num_tokens * vocab_bytes);
}

TEST_F(engine_on_devices, say_the_same_on_a_gpu_with_its_own_products_however_they_are_drafted) {
  emulated_gpu gpu;
  const auto expected = answers(options("cuda:0", "cpu"), gpu, "none");
  ASSERT_EQ(expected.size(), 2U);
  EXPECT_EQ(expected[0].tokens.size(), 12U);
  EXPECT_EQ(answers(options("cuda:0", "auto"), gpu), expected) << "drafts of the same GPU";
  EXPECT_EQ(answers(options("cuda:0", "cuda:0/reference"), gpu), expected) << "drafts of another arithmetic";
  EXPECT_EQ(answers(options("cuda:0", "cpu"), gpu), expected) << "drafts of the CPU";
  const auto num_graphs = gpu.runtime.num_calls("cudaGraphLaunch");
  EXPECT_GT(num_graphs, 10U);
  for (const auto overlap : {config::overlap_mode::groups, config::overlap_mode::ahead}) {
    auto overlapped = options("cuda:0", "cpu");
    overlapped.overlap = overlap;
    EXPECT_EQ(answers(overlapped, gpu), expected);
  }
  EXPECT_GT(gpu.runtime.num_calls("cudaGraphLaunch"), num_graphs + 3) << "overlapped ones, too";
}

TEST_F(engine_on_devices, drafts_in_one_launch_are_those_of_many) {
  struct outcome {
    std::vector<std::vector<token_id>> tokens;
    std::vector<std::string> texts;
    std::uint64_t num_draft = 0, num_accepted = 0; ///< without those of the beam search
    std::uint32_t num_together = 0;
  };
  const auto outcome_with = [&](std::uint32_t num_multiprocessors, bool greedy, std::string drafter) {
    emulated_gpu gpu;
    gpu.runtime.have_multiprocessors(num_multiprocessors);
    auto wanted = options("cuda:0", "auto");
    wanted.overlap = config::overlap_mode::off; // it is chosen by measured times
    wanted.models[0].block_size = 64;           // a lease of one block lasts for the whole request
    if (greedy) wanted.models[0].drafters[0].token_choice = config::draft_sampling::greedy;
    auto engine = engine_probe::start(wanted, speculation::drafter_registry::with_built_in(), gpu.opener());
    EXPECT_TRUE(engine) << engine.error().message();
    const auto counters = [&] { return snapshot_at_rest(**engine).models.at(0).drafters.at(0); };
    const auto drafter_has_blocks = [&] {
      return (*engine)->snapshot().models.at(0).pools.at(1).active_blocks > 0;
    };
    outcome out;
    const auto run = [&](generation_request request) {
      request.speculation.drafter = drafter;
      generation g;
      if (drafter == "none" || request.beams.width != 0) {
        (*engine)->submit(std::move(request), g.sink());
      } else {
        while (drafter_has_blocks()) std::this_thread::yield(); // those of the request before
        const auto num_scores = request.sampling.prompt_logprobs ? request.prompt.size() - 1 : 0;
        const auto first = static_cast<std::uint32_t>(num_scores) + 2;
        const auto id = (*engine)->submit(std::move(request), g.sink(), {.initial_credit = first});
        // The second token is decoded without a draft, because there is no credit for one. The scheduler asks
        // for the drafter's memory then. How soon it is granted depends on the load of the machine, and so
        // would the first round with a draft.
        while (!g.is_done() && !drafter_has_blocks()) std::this_thread::yield();
        (*engine)->grant(id, 100);
      }
      g.wait();
      EXPECT_NE(g.last().finish, finish_reason::error) << g.last().failure->message();
      out.tokens.push_back(g.tokens());
      out.texts.push_back(g.text());
    };
    for (auto& request : testing::requests_of_all_kinds()) run(std::move(request)); // they share no rounds
    out.num_draft = counters().num_draft_tokens, out.num_accepted = counters().num_accepted_tokens;
    auto beams = make_request(5, 8, 20); // it runs until its end without credit
    beams.beams.width = 2;
    run(std::move(beams));
    out.num_together = gpu.runtime.num_calls("cudaLaunchCooperativeKernel");
    return out;
  };
  for (const bool greedy : {false, true}) {
    const outcome in_chains = outcome_with(3, greedy, "same"), by_passes = outcome_with(0, greedy, "same");
    EXPECT_GT(in_chains.num_together, 10U);
    EXPECT_EQ(by_passes.num_together, 0U) << "a GPU that cannot";
    EXPECT_EQ(in_chains.tokens, by_passes.tokens);
    EXPECT_EQ(in_chains.texts, by_passes.texts);
    EXPECT_EQ(in_chains.num_draft, by_passes.num_draft);
    EXPECT_EQ(in_chains.num_accepted, by_passes.num_accepted);
    EXPECT_GT(in_chains.num_accepted, 0U);
  }
  // With a rule that keeps the request's own sample, replies are those without drafts.
  EXPECT_EQ(outcome_with(3, false, "same").tokens.at(1), outcome_with(3, false, "none").tokens.at(1));
}

TEST_F(engine_on_devices, fast_mode_decodes_long_prompts_by_cublaslt_and_promises_less) {
  emulated_gpu gpu;
  const auto ask = [&](const std::string& device, const std::string& drafter, std::uint32_t prompt_length) {
    auto engine = engine_probe::start(options(device, "cpu"), speculation::drafter_registry::with_built_in(),
                                      gpu.opener());
    EXPECT_TRUE(engine) << engine.error().message();
    auto request = make_request(prompt_length, 7);
    request.speculation.drafter = drafter;
    auto lossy = request;
    lossy.speculation.rule = verification_rule::lenient;
    lossy.speculation.lenience = 0.5F;
    generation g, beside;
    (*engine)->submit(std::move(request), g.sink());
    g.wait();
    EXPECT_EQ(g.tokens().size(), 7U);
    (*engine)->submit(std::move(lossy), beside.sink());
    beside.wait();
    EXPECT_EQ(beside.last().speculation->guarantee, guarantee::lossy);
    EXPECT_EQ(snapshot_at_rest(**engine).models.at(0).is_strict, device == "cuda:0");
    return g.last().speculation->guarantee;
  };
  EXPECT_EQ(ask("cuda:0", "same", 90), guarantee::tokens);
  EXPECT_EQ(gpu.runtime.num_calls("cublasLtMatmul"), 0U);
  EXPECT_EQ(ask("cuda:0/fast", "same", 40), guarantee::up_to_rounding);
  EXPECT_EQ(gpu.runtime.num_calls("cublasLtMatmul"), 0U) << "few rows are multiplied as in strict mode";
  EXPECT_EQ(ask("cuda:0/fast", "same", 90), guarantee::up_to_rounding);
  EXPECT_GT(gpu.runtime.num_calls("cublasLtMatmul"), 10U);
  EXPECT_EQ(ask("cuda:0/fast", "none", 90), guarantee::up_to_rounding);
}

TEST_F(engine_on_devices, fast_mode_says_what_strict_mode_does_where_prompts_are_short) {
  emulated_gpu gpu;
  const auto expected = answers(options("cuda:0", "cpu"), gpu);
  ASSERT_EQ(expected.size(), 2U);
  EXPECT_EQ(answers(options("cuda:0/fast", "cpu"), gpu), expected);
}

TEST_F(engine_on_devices, a_call_to_cublaslt_that_fails_in_a_prompt_ends_that_request_only) {
  for (const char* call : {"cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul"}) {
    emulated_gpu gpu;
    auto engine = engine_probe::start(options("cuda:0/fast", "cpu"),
                                      speculation::drafter_registry::with_built_in(), gpu.opener());
    ASSERT_TRUE(engine) << engine.error().message();
    gpu.runtime.fail(call, 1, gpu::failure_kind::other);
    generation g, next;
    (*engine)->submit(make_request(90, 5), g.sink());
    g.wait();
    ASSERT_TRUE(g.last().failure) << call;
    EXPECT_NE(g.last().failure->message().find(call), std::string::npos) << g.last().failure->message();
    (*engine)->submit(make_request(90, 5, 1), next.sink());
    next.wait();
    EXPECT_EQ(next.tokens().size(), 5U) << call;
  }
}

TEST_F(engine_on_devices, a_gpu_without_memory_is_an_error_at_the_start) {
  for (std::uint32_t skipped = 0; skipped < 24; skipped += 3) {
    emulated_gpu gpu;
    gpu.runtime.fail("cudaMalloc", skipped, gpu::failure_kind::out_of_memory);
    const auto engine = engine_probe::start(options("cuda:0", "cpu"),
                                            speculation::drafter_registry::with_built_in(), gpu.opener());
    if (engine) break; // more than loading takes
    EXPECT_EQ(engine.error().code(), errc::resource_exhausted) << engine.error().message();
    EXPECT_EQ(gpu.runtime.num_owned(), 0U);
    ASSERT_LT(skipped, 60U);
  }
}

TEST_F(engine_on_devices, a_device_that_is_not_there_is_an_error_with_the_model) {
  emulated_gpu gpu;
  auto wanted = options("cuda:5", "auto");
  auto engine = engine_probe::start(wanted, speculation::drafter_registry::with_built_in(), gpu.opener());
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code(), errc::unsupported);
  EXPECT_EQ(engine.error().message().find("model tiny: device cuda:5"), 0U) << engine.error().message();
}

TEST_F(engine_on_devices, a_gpu_lost_in_a_round_ends_the_requests_with_an_error) {
  emulated_gpu gpu;
  auto engine = engine_probe::start(options("cuda:0", "cpu"), speculation::drafter_registry::with_built_in(),
                                    gpu.opener());
  ASSERT_TRUE(engine) << engine.error().message();
  gpu.runtime.fail("cudaLaunchKernel", 40, gpu::failure_kind::device_lost);
  generation g;
  (*engine)->submit(make_request(4, 30), g.sink());
  g.wait();
  EXPECT_EQ(g.last().finish, finish_reason::error);
  ASSERT_TRUE(g.last().failure);
  EXPECT_NE(g.last().failure->message().find("cuda:0"), std::string::npos) << g.last().failure->message();
}

} // namespace
} // namespace paceline
