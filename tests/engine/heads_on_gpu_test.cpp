// Heads with their target on a GPU. They draft what they draft on the CPU, and replies are those of plain
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
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace paceline {
namespace {

using gpu::kernel_id;
using test::tiny_head;
using testing::generation;
using testing::make_request;

constexpr std::uint32_t hidden = 32, vocab = 288, num_levels = 3;

struct told_draft {
  std::vector<token_id> tokens;
  std::vector<std::int32_t> parents;
  friend bool operator==(const told_draft&, const told_draft&) = default;

  std::uint32_t num_levels() const {
    std::vector<std::uint32_t> levels;
    for (const std::int32_t parent : parents)
      levels.push_back(parent < 0 ? 1 : levels[static_cast<std::size_t>(parent)] + 1);
    return levels.empty() ? 0 : std::ranges::max(levels);
  }
};

/// One request's reply, the drafts of its rounds by the length of the text, and what was accepted.
struct told {
  std::vector<token_id> tokens;
  std::map<std::uint32_t, told_draft> drafts;
  std::vector<std::vector<std::int32_t>> accepted;
};

/// Expects equal texts, and equal drafts after the same text. A draft has fewer levels or nodes if the cells
/// for more came a round late, which depends on the clock. Returns how many drafts were compared.
std::size_t expect_same(const std::vector<told>& a, const std::vector<told>& b) {
  std::size_t num_compared = 0;
  EXPECT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    EXPECT_EQ(a[i].tokens, b[i].tokens) << "request " << i;
    for (const auto& [length, draft] : a[i].drafts) {
      const auto other = b[i].drafts.find(length);
      if (other == b[i].drafts.end() || other->second.tokens.size() != draft.tokens.size() ||
          other->second.num_levels() != draft.num_levels())
        continue;
      ++num_compared;
      EXPECT_EQ(other->second, draft) << "request " << i << " below " << length << " tokens";
    }
  }
  return num_compared;
}

class heads_on_gpu : public ::testing::TestWithParam<const char*> {
 protected:
  heads_on_gpu() {
    const std::string kind = GetParam();
    const std::uint32_t num_layers = kind == "eagle3" ? 4 : 2; // it reads three of them, others the last one
    test::make_tiny_gguf({.num_layers = num_layers, .hidden_size = hidden, .context_length = 64})
        .write(folder_ / "tiny.gguf");
    std::filesystem::create_directory(folder_ / "head");
    auto head = kind == "eagle3"   ? tiny_head::eagle3(hidden, hidden, vocab, 100)
                : kind == "medusa" ? tiny_head::medusa(hidden, vocab, num_levels)
                                   : tiny_head::hydra(hidden, vocab, num_levels);
    if (kind == "eagle3") head.config["target_layer_ids"] = {0, 1, 2};
    head.write(folder_ / "head");
  }

  config::engine_options options(const std::string& device) const {
    config::engine_options out;
    out.threads = 1;
    out.pass_timing = {}; // the emulation would take all of it
    auto& model = out.models.emplace_back();
    model.name = "tiny";
    model.path = folder_ / "tiny.gguf";
    model.device = device;
    model.kv_dtype = kv_type::f32;
    model.block_size = 4;  // paths cross block boundaries
    model.max_running = 1; // the emulation protects every page of the pools again behind each launch
    model.default_drafter = "none";
    auto& head = model.drafters.emplace_back(test::options_of("head", GetParam()));
    head.path = folder_ / "head";
    head.draft_length = num_levels;
    head.tree_top_k = 3;
    if (GetParam() != std::string("eagle3")) // the published tree fills a pass
      head.tree_paths = {"0", "0.0", "1", "0.1", "2", "0.0.0", "1.0", "0.2", "1.0.0"};
    return out;
  }

  /// Target and head choose among four tokens, so branches other than the first are accepted.
  static std::vector<generation_request> requests() {
    std::vector<generation_request> all;
    for (std::uint32_t i = 0; i < 3; ++i) {
      auto& r = all.emplace_back(make_request(3 + 6 * i, 20, i, i == 1 ? 1.0F : 0.0F));
      for (std::int32_t token = 40; token < 48; token += 2)
        r.sampling.logit_bias.emplace_back(token_id{token}, 60.0F);
      r.trace = true;
    }
    return all;
  }

  std::unique_ptr<engine> start(const std::string& device, testing::emulated_gpu<>& gpu) const {
    auto made =
        engine_probe::start(options(device), speculation::drafter_registry::with_built_in(), gpu.opener());
    if (!made) throw std::runtime_error(made.error().message());
    return *std::move(made);
  }

  static std::vector<told> replies(engine& on, const std::string& drafter) {
    std::vector<told> out;
    for (auto& request : requests()) { // one after another
      request.speculation.drafter = drafter;
      request.cache_salt = drafter; // finds no cells of another drafter's run
      generation reply;
      auto& said = out.emplace_back();
      std::mutex mutex;
      on.submit(request, [&, sink = reply.sink()](const token_event& event) {
        if (std::lock_guard lock(mutex); event.trace && !event.trace->draft_tokens.empty()) {
          said.drafts[event.trace->base_length] = {event.trace->draft_tokens, event.trace->parents};
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
  const auto on_cpu = replies(*start("cpu", gpu), "head");
  ASSERT_EQ(gpu.num_opened, 0);
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
    const auto engine = start(device, gpu);
    const auto plain = replies(*engine, "none");
    const auto commits = gpu.runtime.num_launches(kernel_id::kv_commit);
    const auto copies = gpu.runtime.num_launches(kernel_id::kv_copy);
    const auto drafted = replies(*engine, "head");
    for (std::size_t i = 0; i < plain.size(); ++i)
      EXPECT_EQ(drafted[i].tokens, plain[i].tokens) << "request " << i << " on " << device;
    EXPECT_GT(gpu.runtime.num_launches(kernel_id::kv_commit), commits) << "the device moves accepted cells";
    EXPECT_EQ(gpu.runtime.num_launches(kernel_id::kv_copy), copies) << "and the host none";
    if (device == "cuda:0") continue; // its sums have other bits
    EXPECT_GT(expect_same(drafted, on_cpu), 10U);
  }
}

INSTANTIATE_TEST_SUITE_P(kinds, heads_on_gpu, ::testing::Values("eagle3", "medusa", "hydra"),
                         [](const auto& test) { return std::string(test.param); });

} // namespace
} // namespace paceline
