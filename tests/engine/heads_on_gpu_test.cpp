// Heads beside their target on a GPU: they draft what they draft on the CPU, and replies are those of plain
// decoding on the same GPU.
#include "engine/probe.hpp"
#include "tests/engine/emulated_gpu.hpp"
#include "tests/engine/generation.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/test_drafters.hpp"
#include "tests/support/tiny_head.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <numeric>

namespace paceline {
namespace {

using gpu::kernel_id;
using test::tiny_head;
using testing::generation;
using testing::make_request;

constexpr std::uint32_t num_layers = 8, hidden = 32, vocab = 288, num_levels = 3;

/// One request's reply, and the drafts of its rounds.
struct told {
  std::vector<token_id> tokens;
  std::vector<std::vector<token_id>> drafts;
  std::vector<std::vector<std::int32_t>> parents, accepted;
  friend bool operator==(const told&, const told&) = default;
};

class heads_on_gpu : public ::testing::TestWithParam<const char*> {
 protected:
  heads_on_gpu() {
    test::make_tiny_gguf({.num_layers = num_layers, .hidden_size = hidden, .context_length = 128})
        .write(folder_ / "tiny.gguf");
    std::filesystem::create_directory(folder_ / "head");
    const std::string kind = GetParam();
    const auto head = kind == "eagle3"   ? tiny_head::eagle3(hidden, hidden, vocab, 100)
                      : kind == "medusa" ? tiny_head::medusa(hidden, vocab, num_levels)
                                         : tiny_head::hydra(hidden, vocab, num_levels);
    head.write(folder_ / "head");
  }

  config::engine_options options(const std::string& device) const {
    config::engine_options out;
    out.threads = 1;
    auto& model = out.models.emplace_back();
    model.name = "tiny";
    model.path = folder_ / "tiny.gguf";
    model.device = device;
    model.kv_dtype = kv_type::f32;
    model.block_size = 4; // paths cross block boundaries
    model.default_drafter = "none";
    auto& head = model.drafters.emplace_back(test::options_of("head", GetParam()));
    head.path = folder_ / "head";
    head.draft_length = num_levels;
    head.tree_top_k = 3;
    return out;
  }

  /// The target chooses among four tokens, and so does the head: branches other than the first are accepted.
  static std::vector<generation_request> requests() {
    std::vector<generation_request> all;
    for (std::uint32_t i = 0; i < 3; ++i) {
      auto& r = all.emplace_back(make_request(3 + 9 * i, 24, i, i == 1 ? 1.0F : 0.0F));
      for (std::int32_t token = 40; token < 48; token += 2)
        r.sampling.logit_bias.emplace_back(token_id{token}, 60.0F);
      r.trace = true;
    }
    return all;
  }

  template <class Runtime>
  std::vector<told> replies(const std::string& device, testing::emulated_gpu<Runtime>& gpu,
                            const std::string& drafter) {
    auto engine =
        engine_probe::start(options(device), speculation::drafter_registry::with_built_in(), gpu.opener());
    if (!engine) {
      ADD_FAILURE() << engine.error().message();
      return {};
    }
    std::vector<told> out;
    for (auto& request : requests()) { // one after another: their rounds do not depend on the clock
      request.speculation.drafter = drafter;
      generation reply;
      auto& said = out.emplace_back();
      std::mutex mutex;
      (*engine)->submit(request, [&, sink = reply.sink()](const token_event& event) {
        if (std::lock_guard lock(mutex); event.trace && !event.trace->draft_tokens.empty()) {
          said.drafts.push_back(event.trace->draft_tokens);
          said.parents.push_back(event.trace->parents);
          said.accepted.push_back(event.trace->accepted);
        }
        sink(event);
      });
      reply.wait();
      EXPECT_EQ(reply.last().finish, finish_reason::length);
      said.tokens = reply.tokens();
    }
    return out;
  }

  test::scratch_folder folder_;
};

TEST_P(heads_on_gpu, draft_as_on_the_cpu_for_the_text_of_plain_decoding) {
  testing::emulated_gpu<> gpu;
  const auto on_cpu = replies("cpu", gpu, "head");
  ASSERT_EQ(gpu.num_opened, 0);
  EXPECT_EQ(replies("cuda:0/reference", gpu, "head"), on_cpu);
  std::size_t num_other = 0, num_long = 0; // paths that are not the nodes 0, 1, 2; paths of two and more
  for (const auto& one : on_cpu)
    for (const auto& path : one.accepted) {
      num_long += path.size() >= 2 ? 1 : 0;
      std::vector<std::int32_t> in_place(path.size());
      std::iota(in_place.begin(), in_place.end(), 0);
      num_other += path != in_place ? 1 : 0;
    }
  EXPECT_GT(num_other, 5U);
  EXPECT_GT(num_long, 3U);
  for (const std::string device : {"cuda:0/reference", "cuda:0"}) {
    const auto plain = replies(device, gpu, "none");
    const auto commits = gpu.runtime.num_launches(kernel_id::kv_commit);
    const auto copies = gpu.runtime.num_launches(kernel_id::kv_copy);
    const auto drafted = replies(device, gpu, "head");
    for (std::size_t i = 0; i < plain.size(); ++i)
      EXPECT_EQ(drafted[i].tokens, plain[i].tokens) << "request " << i << " on " << device;
    EXPECT_GT(gpu.runtime.num_launches(kernel_id::kv_commit), commits) << "the device moves accepted cells";
    EXPECT_EQ(gpu.runtime.num_launches(kernel_id::kv_copy), copies) << "and the host none";
  }
}

INSTANTIATE_TEST_SUITE_P(kinds, heads_on_gpu, ::testing::Values("eagle3", "medusa", "hydra"),
                         [](const auto& test) { return std::string(test.param); });

} // namespace
} // namespace paceline
