// Models with recurrent states in the whole engine. Every reply is that of plain decoding alone, whatever
// drafts, whatever other requests run, and wherever its cells and states come from.
#include "tests/engine/served_model.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace paceline {
namespace {

using model::architecture;

class recurrent_model : public testing::served_model, public ::testing::WithParamInterface<architecture> {
 protected:
  recurrent_model() {
    test::tiny_model tiny{.arch = GetParam(),
                          .type = device::tensor_type::q8_0,
                          .num_layers = 4,
                          .context_length = 320,
                          .num_key_heads = 1, // states are small, so that a tight pool is short of cells
                          .num_value_heads = 2,
                          .delta_head_dim = 4,
                          .mtp_module = has_module()};
    test::make_tiny_gguf(tiny).write(path_);
    tiny.arch = architecture::llama; // drafts for it; of the same vocabulary
    tiny.mtp_module = false;
    test::make_tiny_gguf(tiny).write(other_);
  }

  config::engine_options options() const {
    auto out = basic_options();
    auto& model = out.models[0];
    model.drafters.push_back(test::options_of("ngram_tree", "ngram"));
    model.drafters.back().ngram_min = 1;
    model.drafters.back().candidates = 3;
    model.drafters.push_back(test::options_of("lookahead", "lookahead"));
    add_draft_model(model, other_, "model", "model_tree");
    model.drafters.push_back(test::options_of("ngram_heuristic", "ngram"));
    model.drafters.back().ngram_min = 1;
    model.drafters.back().length_rule = length_rule::heuristic;
    model.drafters.push_back(model.drafters[model.drafters.size() - 3]); // "model", also of changing length
    model.drafters.back().name = "model_optimal";
    model.drafters.back().length_rule = length_rule::optimal;
    if (has_module()) model.drafters.push_back(test::options_of("mtp", "mtp"));
    return out;
  }

  static bool has_module() { return GetParam() != architecture::lfm2 && GetParam() != architecture::lfm2moe; }

  /// The actor of a drafter with a model of its own.
  std::string worker(const std::string& drafter) const {
    const auto& drafters = options().models[0].drafters;
    const auto found = std::ranges::find(drafters, drafter, &config::drafter_options::name);
    return "draft_worker/0/" + std::to_string(found - drafters.begin() + 1); // 0 drafts nothing
  }

  all_tokens replies(const config::engine_options& options, const std::string& drafter, bool together,
                     std::uint32_t beam_width = 0) {
    auto wanted = requests(18);
    for (auto& one : wanted) {
      one.speculation.drafter = drafter;
      one.beams.width = beam_width;
    }
    auto out = serve(options, wanted, together);
    if (out.empty()) return out;
    const auto& pool = figures_.pools.at(0);
    EXPECT_GT(pool.num_state_slots, 0U);
    EXPECT_EQ(pool.held_state_slots, 0U) << "states leaked";
    EXPECT_EQ(pool.idle_snapshots > 0, options.prefix_cache);
    return out;
  }

  std::filesystem::path other_ = folder_ / "other.gguf";
};

TEST_P(recurrent_model, replies_are_those_of_plain_decoding_alone) {
  auto alone = options();
  alone.prefix_cache = false;
  const auto expected = replies(alone, "none", false);
  ASSERT_EQ(expected.size(), 10U);
  EXPECT_NE(expected[0], expected[1]);
  std::uint64_t accepted = 0;
  for (const char* drafter : {"none", "ngram", "ngram_tree", "ngram_heuristic", "lookahead", "model",
                              "model_tree", "model_optimal", "mtp", "auto"}) {
    if (drafter == std::string("mtp") && !has_module()) continue;
    EXPECT_TRUE(replies(options(), drafter, true) == expected) << drafter;
    EXPECT_GT(num_hits(), 0U) << drafter;
    accepted += num_accepted_;
    // Whether these draft depends on measured times.
    if (drafter != std::string("auto") && drafter != std::string("model_optimal")) {
      EXPECT_EQ(num_drafted_ > 0, drafter != std::string("none")) << drafter;
    }
  }
  EXPECT_GT(accepted, 0U);
}

TEST_P(recurrent_model, replies_stay_the_same_when_requests_are_preempted) {
  num_tokens_ = 100; // so that requests outgrow the pool
  auto alone = options();
  alone.prefix_cache = false;
  const auto expected = replies(alone, "none", false);
  auto tight = options();
  std::erase_if(tight.models[0].drafters,
                [](const auto& d) { return d.kind == "model" || d.kind == "mtp"; }); // and their pools
  tight.memory_budget_bytes = 60000; // little more than a request of full length needs
  for (const char* drafter : {"none", "ngram", "ngram_tree"}) {
    EXPECT_TRUE(replies(tight, drafter, true) == expected) << drafter;
    EXPECT_GT(figures_.num_preemptions, 0U) << drafter;
  }
}

TEST_P(recurrent_model, a_long_reply_stays_the_same) {
  num_requests_ = 2;
  num_tokens_ = 280; // nearly the whole context
  auto alone = options();
  alone.prefix_cache = false;
  const auto expected = replies(alone, "none", false);
  ASSERT_EQ(expected.size(), 2U);
  ASSERT_GE(expected[0].size(), 280U);
  for (const char* drafter : {"ngram_tree", "model"})
    EXPECT_TRUE(replies(options(), drafter, true) == expected) << drafter;
}

TEST_P(recurrent_model, the_next_turn_of_a_conversation_begins_after_the_last_prompt) {
  num_requests_ = 1;
  auto first = requests(18).front();
  first.prompt.edit().resize(23, token_id{7});
  auto alone = basic_options();
  alone.prefix_cache = false;
  const auto reply = serve(alone, {first}, false).at(0);
  auto next = first;
  next.prompt.edit().resize(20); // the template does not repeat the end of the prompt
  for (const auto token : reply) next.prompt.push_back(token);
  next.prompt.edit().resize(next.prompt.size() + 5, token_id{9});
  const auto expected = serve(alone, {next}, false);
  for (const char* drafter : {"none", "ngram"}) {
    first.speculation.drafter = next.speculation.drafter = drafter;
    const auto turns = serve(basic_options(), {first, next}, false);
    ASSERT_EQ(turns.size(), 2U);
    EXPECT_EQ(turns[0], reply) << drafter;
    EXPECT_EQ(turns[1], expected[0]) << drafter;
    EXPECT_EQ(num_hits(), 12U) << "the whole blocks of the first prompt, which has 23 tokens, less 8";
  }
}

TEST_P(recurrent_model, the_third_question_behind_a_system_prompt_does_not_compute_it_again) {
  num_requests_ = 1;
  std::vector<generation_request> questions(3, requests(18).front());
  for (std::int32_t i = 0; i < 3; ++i) {
    auto& prompt = questions[static_cast<std::size_t>(i)].prompt.edit();
    prompt.resize(22, token_id{7}); // which they share
    prompt.resize(37, token_id{11 + i});
  }
  auto alone = basic_options();
  alone.prefix_cache = false;
  const auto expected = serve(alone, questions, false);
  ASSERT_EQ(expected.size(), 3U);
  EXPECT_TRUE(serve(basic_options(), {questions[0], questions[1]}, false) ==
              (all_tokens{expected[0], expected[1]}));
  EXPECT_EQ(num_hits(), 0U) << "of the first one, no state was kept there";
  EXPECT_TRUE(serve(basic_options(), questions, false) == expected);
  EXPECT_EQ(num_hits(), 20U);
}

TEST_P(recurrent_model, replies_stay_the_same_when_actors_are_killed) {
  num_tokens_ = 60;
  auto alone = options();
  alone.prefix_cache = false;
  const auto expected = replies(alone, "none", false);
  ASSERT_EQ(expected.size(), 10U);
  auto killed = options();
  killed.max_restarts = 1000;
  const auto kill = [&](const std::string& actor, const std::vector<const char*>& drafters) {
    std::uint32_t num_kills = 0;
    disturb_ = [&](engine_probe& probe) { num_kills += probe.kill(actor); };
    for (const char* drafter : drafters)
      EXPECT_TRUE(replies(killed, drafter, true) == expected) << drafter << " without " << actor;
    EXPECT_GE(num_kills, 2 * drafters.size()) << actor;
  };
  for (const char* actor : {"scheduler/0", "target_verifier/0", "kv_pool"}) {
    kill(actor, {"ngram_tree", "model"});
    if (has_module()) kill(actor, {"mtp"});
  }
  kill(worker("model"), {"model"});
  if (has_module()) kill(worker("mtp"), {"mtp"});
}

TEST_P(recurrent_model, beam_searches_find_the_same_text_with_drafts_and_without) {
  auto alone = options();
  alone.prefix_cache = false;
  const auto expected = replies(alone, "none", false, 3);
  ASSERT_EQ(expected.size(), 10U);
  for (const char* drafter : {"none", "ngram", "model", "model_tree", "mtp"})
    if (drafter != std::string("mtp") || has_module()) {
      EXPECT_TRUE(replies(options(), drafter, true, 3) == expected) << drafter;
    }
}

TEST_P(recurrent_model, a_gpu_says_the_same_with_drafts_and_without) {
  num_requests_ = 3; // the emulation takes its time
  auto on_gpu = options();
  on_gpu.models[0].device = "cuda:0";
  auto alone = on_gpu;
  alone.prefix_cache = false;
  const auto expected = replies(alone, "none", false);
  ASSERT_EQ(expected.size(), 3U);
  for (const char* drafter : {"ngram", "model_tree", "mtp"}) {
    if (drafter == std::string("mtp") && !has_module()) continue;
    EXPECT_TRUE(replies(on_gpu, drafter, true) == expected) << drafter;
  }
}

TEST_P(recurrent_model, says_if_there_is_no_memory_for_its_drafts) {
  const auto shortage = [](const config::engine_options& of) {
    const auto engine = engine_probe::start(of, speculation::drafter_registry::with_built_in());
    return engine ? (*engine)->model("tiny")->shortage() : engine.error().message();
  };
  auto of = basic_options();
  EXPECT_EQ(shortage(of), "");
  of.memory_budget_bytes = 60000;
  EXPECT_NE(shortage(of).find("a request alone drafts at most "), std::string::npos) << shortage(of);
  EXPECT_NE(shortage(of).find("A lower max_running (it is 8)"), std::string::npos) << shortage(of);
}

TEST_P(recurrent_model, a_drafter_with_a_recurrent_state_is_refused_by_name) {
  for (const char* kind : {"model", "self"}) {
    auto wrong = options();
    auto& drafter = wrong.models[0].drafters.emplace_back(test::options_of("own", kind));
    if (kind == std::string("model")) drafter.path = path_;
    if (kind == std::string("self")) drafter.layers = 2;
    const auto engine = engine_probe::start(wrong, speculation::drafter_registry::with_built_in());
    ASSERT_FALSE(engine) << kind;
    EXPECT_NE(engine.error().message().find("own"), std::string::npos) << engine.error().message();
  }
}

INSTANTIATE_TEST_SUITE_P(architectures, recurrent_model,
                         ::testing::Values(architecture::lfm2, architecture::lfm2moe, architecture::qwen35,
                                           architecture::qwen35moe, architecture::qwen3next),
                         [](const auto& test) { return std::string(model::to_string(test.param)); });

} // namespace
} // namespace paceline
