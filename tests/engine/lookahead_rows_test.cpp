// Look-ahead rows in whole engines, on the CPU and on an emulated GPU: several drafters with tables of their
// own for one model, and replies that are those of plain decoding on the same device.
#include "engine/probe.hpp"
#include "engine/served_model.hpp"
#include "engine/snapshot.hpp"
#include "tests/engine/emulated_gpu.hpp"
#include "tests/engine/generation.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/test_drafters.hpp"
#include "tests/support/tiny_head.hpp"
#include "tests/support/tiny_hf_model.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

namespace paceline {
namespace {

using testing::generation;
using testing::make_request;

constexpr std::uint32_t hidden = 32;

class lookahead_rows : public ::testing::Test {
 protected:
  lookahead_rows() {
    test::make_tiny_gguf({.arch = model::architecture::gemma3, .type = device::tensor_type::q4_0})
        .write(folder_ / "tiny.gguf");
    test::tiny_head pass, ppd;
    pass.add("lookahead.weight", {4, hidden});
    ppd.add("prompt_embeddings", {3, hidden});
    write(pass, "pass"), write(ppd, "ppd");
    test::write_text(folder_ / "ppd/adapter_config.json", R"({"num_special_tokens": 3})");
  }

  void write(const test::tiny_head& files, const std::string& name) {
    std::filesystem::create_directory(folder_ / name);
    files.write(folder_ / name);
  }

  config::engine_options options(const std::string& device) const {
    config::engine_options out;
    out.threads = 1;
    out.pass_timing = {}; // the emulation would take all of it
    auto& model = out.models.emplace_back();
    model.name = "tiny";
    model.path = folder_ / "tiny.gguf";
    model.device = device;
    model.block_size = 4;
    model.default_drafter = "none";
    for (const auto& [name, kind] : {std::pair{"first", "pass"}, {"wide", "ppd"}, {"chain", "ppd"}}) {
      auto& made = model.drafters.emplace_back(test::options_of(name, kind));
      made.path = folder_ / kind;
    }
    model.drafters[1].tree_top_k = 16;
    model.drafters[2].tree = config::tree_kind::chain;
    return out;
  }

  /// Long and short prompts, some with the same beginning, greedy and sampled, which end by length or by a
  /// stop token.
  static std::vector<generation_request> requests(const std::vector<std::string>& drafters) {
    std::vector<generation_request> all;
    for (std::uint32_t i = 0; i < 6; ++i) {
      all.push_back(make_request(i % 3 == 0 ? 21 : 3 + 2 * i, 24, i % 3, i % 2 == 1 ? 1.0F : 0.0F));
      all.back().speculation.drafter = drafters[i % drafters.size()];
      all.back().speculation.draft_length = 4;
    }
    for (std::int32_t t = 1; t < 288; t += 9) all[4].stop.stop_ids.emplace_back(t);
    return all;
  }

  /// Runs all requests together, twice. The second time their prompts are in the prefix cache.
  std::vector<std::vector<token_id>> replies(const config::engine_options& options,
                                             const std::vector<generation_request>& requests) {
    testing::emulated_gpu<> gpu;
    auto engine = engine_probe::start(options, speculation::drafter_registry::with_built_in(), gpu.opener());
    if (!engine) {
      ADD_FAILURE() << engine.error().message();
      return {};
    }
    std::vector<std::vector<token_id>> out;
    for (int time = 0; time < 2; ++time) {
      std::vector<generation> all(requests.size());
      for (std::size_t i = 0; i < all.size(); ++i) (*engine)->submit(requests[i], all[i].sink());
      for (const auto& one : all) {
        one.wait();
        EXPECT_NE(one.last().finish, finish_reason::error) << one.last().failure->message();
        out.push_back(one.tokens());
      }
    }
    counters_ = snapshot_at_rest(**engine).models.at(0);
    return out;
  }

  test::scratch_folder folder_;
  model_counters counters_; ///< of the previous engine
};

class lookahead_rows_on_devices : public lookahead_rows, public ::testing::WithParamInterface<const char*> {};

TEST_P(lookahead_rows_on_devices, change_no_reply) {
  const std::string device = GetParam();
  const auto expected = replies(options(device), requests({"none"}));
  for (const std::vector<std::string>& drafters : {std::vector<std::string>{"first"},
                                                   {"wide"},
                                                   {"chain"},
                                                   {"first", "wide", "chain", "none"},
                                                   {"auto"}}) {
    EXPECT_EQ(replies(options(device), requests(drafters)), expected) << drafters[0] << " on " << device;
    if (drafters.size() > 1) continue;
    if (drafters[0] == "first") {
      EXPECT_GT(counters_.drafters.at(0).num_draft_tokens, 100U);
    }
    if (drafters[0] == "wide") {
      EXPECT_GT(counters_.drafters.at(1).num_draft_tokens, 500U);
      EXPECT_GT(counters_.drafters.at(1).num_accepted_tokens, 0U);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(devices, lookahead_rows_on_devices,
                         ::testing::Values("cpu", "cuda:0", "cuda:0/reference"), [](const auto& test) {
                           const std::string name = test.param;
                           return name == "cpu" ? "cpu" : name == "cuda:0" ? "gpu" : "reference";
                         });

TEST_F(lookahead_rows, are_as_many_as_there_are_inputs_where_no_length_is_named) {
  auto asked = options("cpu");
  asked.models[0].drafters[2].draft_length = 2;
  testing::emulated_gpu<> gpu;
  const auto engine =
      engine_probe::start(asked, speculation::drafter_registry::with_built_in(), gpu.opener());
  ASSERT_TRUE(engine) << engine.error().message();
  const served_model& model = *(*engine)->models().front();
  EXPECT_EQ(model.drafters(),
            (std::vector<std::string>{"none", "first", "wide", "chain", "prediction", "forced", "auto"}));
  EXPECT_EQ(model.draft_lengths(), (std::vector<std::uint32_t>{0, 4, 3, 2, 16, 16, 16}));
  auto request = make_request(12, 24, 1, 0.0F);
  request.speculation.drafter = "first";
  request.trace = true;
  std::mutex mutex;
  std::size_t longest = 0;
  generation reply;
  (*engine)->submit(request, [&, sink = reply.sink()](const token_event& event) {
    if (std::lock_guard lock(mutex); event.trace)
      longest = std::max(longest, event.trace->draft_tokens.size());
    sink(event);
  });
  reply.wait();
  EXPECT_EQ(longest, 4U);
}

TEST_F(lookahead_rows, survive_preemption) {
  auto tight = options("cpu");
  tight.models[0].context_length = 64;
  const auto expected = replies(tight, requests({"none"}));
  tight.prefix_cache = false;
  tight.memory_budget_bytes = 80 * 128; // cells for a little more than a request
  EXPECT_EQ(replies(tight, requests({"first", "wide"})), expected);
  EXPECT_GT(counters_.num_preemptions, 0U);
}

TEST_F(lookahead_rows, of_another_width_are_refused) {
  test::tiny_head other;
  other.add("lookahead.weight", {4, 8});
  write(other, "pass");
  testing::emulated_gpu<> gpu;
  const auto engine =
      engine_probe::start(options("cpu"), speculation::drafter_registry::with_built_in(), gpu.opener());
  ASSERT_FALSE(engine);
  EXPECT_NE(engine.error().message().find("must have the shape [4][32], has [4][8]"), std::string::npos)
      << engine.error().message();
}

} // namespace
} // namespace paceline
