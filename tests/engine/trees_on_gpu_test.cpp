// Trees that a GPU verifies, and whose accepted cells it moves itself: replies are those of plain decoding on
// the same GPU, whatever happens to the cells afterwards.
#include "engine/probe.hpp"
#include "engine/snapshot.hpp"
#include "tests/engine/emulated_gpu.hpp"
#include "tests/engine/generation.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/test_drafters.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

namespace paceline {
namespace {

using gpu::kernel_id;
using testing::generation;
using testing::make_request;

/// A GPU without support for graphs.
class without_graphs : public gpu::emulation::emulated_runtime {
 public:
  using emulated_runtime::emulated_runtime;
  gpu::status make_graph(gpu::raw_graph&) override { return 801; }
};

struct said {
  std::vector<token_id> tokens;
  std::string text;
  finish_reason finish;
  friend bool operator==(const said&, const said&) = default;
};

/// The texts to draft, each found by its beginning.
using texts = std::vector<std::vector<token_id>>;

test::next_token read_from(std::shared_ptr<const texts> all) {
  return [all](const speculation::draft_task& task, std::span<const token_id> path) {
    const std::size_t at = task.tokens.size() + path.size();
    for (const auto& text : *all)
      if (text.size() > at && std::ranges::equal(task.tokens, std::span(text).first(task.tokens.size())))
        return at % 7 == 6 ? token_id{11} : text[at]; // wrong at times
    return token_id{-1};
  };
}

class trees_on_gpu : public ::testing::Test {
 protected:
  trees_on_gpu() {
    test::make_tiny_gguf({.arch = model::architecture::gemma3, .type = device::tensor_type::q4_0})
        .write(path_);
  }

  /// Drafters "tree" and "twins" know the texts; "same", with the target's model, only knows its own text.
  config::engine_options options(const std::string& target = "cuda:0",
                                 const std::string& drafter = "cpu") const {
    config::engine_options out;
    out.threads = 1;
    auto& model = out.models.emplace_back();
    model.name = "tiny";
    model.path = path_;
    model.device = target;
    model.block_size = 4; // paths cross block boundaries
    model.default_drafter = "none";
    for (const char* name : {"tree", "twins"}) model.drafters.push_back(test::options_of(name, name));
    auto& same = model.drafters.emplace_back(test::options_of("same", "model"));
    same.path = path_;
    same.device = drafter;
    same.draft_length = 3;
    same.tree = config::tree_kind::dynamic;
    same.tree_top_k = 2;
    return out;
  }

  speculation::drafter_registry registry() const {
    auto made = speculation::drafter_registry::with_built_in();
    const auto known = read_from(texts_);
    made.add("tree", [known](const auto& parts) -> expected<std::unique_ptr<speculation::drafter>> {
      return test::make_tree_drafter(parts.options.name, known, 2, 288);
    });
    made.add("twins", [known](const auto& parts) -> expected<std::unique_ptr<speculation::drafter>> {
      return test::make_twin_drafter(parts.options.name, known, 288);
    });
    return made;
  }

  /// Requests that the device decides, whose first and second replies end within an accepted path.
  static std::vector<generation_request> requests() {
    std::vector<generation_request> all;
    for (std::uint32_t i = 0; i < 3; ++i) {
      all.push_back(make_request(3 + 2 * i, 10 + 12 * i, i, i == 1 ? 1.0F : 0.0F));
      all.back().speculation.draft_length = 4;
    }
    for (std::int32_t t = 1; t < 288; t += 9) all[1].stop.stop_ids.emplace_back(t);
    all[2].first_target = token_id{99};
    all[2].sampling.frequency_penalty = 0.5F;
    return all;
  }

  template <class Runtime>
  std::vector<said> replies(engine& runtime, testing::emulated_gpu<Runtime>& gpu,
                            std::vector<generation_request> requests, const std::string& drafter) {
    std::vector<generation> all(requests.size());
    const auto commits = gpu.runtime.num_launches(kernel_id::kv_commit);
    for (std::size_t i = 0; i < all.size(); ++i) {
      requests[i].speculation.drafter = drafter;
      runtime.submit(requests[i], all[i].sink());
    }
    std::vector<said> out;
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].wait();
      const auto last = all[i].last();
      EXPECT_NE(last.finish, finish_reason::error) << last.failure->message();
      out.push_back({all[i].tokens(), all[i].text(), last.finish});
    }
    EXPECT_EQ(gpu.runtime.num_launches(kernel_id::kv_commit) > commits, drafter != "none");
    return out;
  }
  template <class Runtime>
  std::vector<said> replies(const config::engine_options& options, testing::emulated_gpu<Runtime>& gpu,
                            const std::vector<generation_request>& requests, const std::string& drafter) {
    auto engine = engine_probe::start(options, registry(), gpu.opener());
    if (!engine) {
      ADD_FAILURE() << engine.error().message();
      return {};
    }
    const auto out = replies(**engine, gpu, requests, drafter);
    counters_ = snapshot_at_rest(**engine).models.at(0);
    return out;
  }
  void remember(const std::vector<generation_request>& requests, const std::vector<said>& replies) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      auto& text = texts_->emplace_back(requests[i].prompt);
      text.insert(text.end(), replies[i].tokens.begin(), replies[i].tokens.end());
      text.resize(64, token_id{5}); // continues, so that replies end within paths
    }
  }

  test::scratch_folder folder_;
  std::filesystem::path path_ = folder_ / "tiny.gguf";
  std::shared_ptr<texts> texts_ = std::make_shared<texts>();
  model_counters counters_; ///< of the previous engine
};

TEST_F(trees_on_gpu, say_what_plain_decoding_says_without_a_copy_of_the_hosts) {
  const auto asked = requests();
  for (const char* device : {"cuda:0/reference", "cuda:0"}) {
    testing::emulated_gpu<> gpu;
    testing::emulated_gpu<without_graphs> plain_gpu;
    const auto expected = replies(options(device), gpu, asked, "none");
    texts_->clear();
    remember(asked, expected);
    EXPECT_EQ(expected[1].finish, finish_reason::stop);
    for (const char* drafter : {"tree", "twins"}) {
      const auto graphs = gpu.runtime.num_calls("cudaGraphLaunch");
      EXPECT_EQ(replies(options(device), gpu, asked, drafter), expected) << drafter << " on " << device;
      EXPECT_GT(gpu.runtime.num_calls("cudaGraphLaunch"), graphs + 1) << drafter << " on " << device;
      EXPECT_GT(counters_.drafters.at(drafter == std::string("tree") ? 0 : 1).num_accepted_tokens, 40U);
    }
    EXPECT_EQ(replies(options(device), plain_gpu, asked, "tree"), expected) << "commands on " << device;
    EXPECT_EQ(plain_gpu.runtime.num_calls("cudaGraphLaunch"), 0U);
    EXPECT_EQ(gpu.runtime.num_launches(kernel_id::kv_copy), 0U);
    EXPECT_EQ(plain_gpu.runtime.num_launches(kernel_id::kv_copy), 0U);
  }
}

TEST_F(trees_on_gpu, say_it_however_drafts_of_a_model_overlap) {
  auto asked = requests();
  asked.pop_back();
  testing::emulated_gpu<> gpu;
  const auto expected = replies(options(), gpu, asked, "none");
  using config::overlap_mode;
  for (const auto overlap :
       {overlap_mode::off, overlap_mode::groups, overlap_mode::ahead, overlap_mode::outcomes}) {
    auto with = options();
    with.overlap = overlap;
    EXPECT_EQ(replies(with, gpu, asked, "same"), expected) << "overlap " << static_cast<int>(overlap);
  }
  EXPECT_EQ(gpu.runtime.num_launches(kernel_id::kv_copy), 0U);
  auto beside = options("cuda:0", "cuda:0"); // the host moves the drafter's own cells
  beside.overlap = overlap_mode::ahead;
  EXPECT_EQ(replies(beside, gpu, asked, "same"), expected) << "drafts of the same GPU";
}

TEST_F(trees_on_gpu, leave_cells_that_dialogues_go_on_from) {
  const auto asked = requests();
  std::vector<said> second[2];
  for (const bool drafted : {false, true}) {
    testing::emulated_gpu<> gpu;
    auto engine = engine_probe::start(options(), registry(), gpu.opener());
    ASSERT_TRUE(engine) << engine.error().message();
    const std::string drafter = drafted ? "tree" : "none";
    const auto first = replies(**engine, gpu, asked, drafter);
    auto next = asked;
    for (std::size_t i = 0; i < next.size(); ++i) {
      auto& prompt = next[i].prompt.edit();
      prompt.insert(prompt.end(), first[i].tokens.begin(), first[i].tokens.end());
      prompt.insert(prompt.end(), {token_id{50}, token_id{51}});
      next[i].stop.max_tokens = 10;
      next[i].stop.min_tokens = 0;
    }
    const auto hits = snapshot_at_rest(**engine).models.at(0).pools.at(0).prefix_hit_tokens;
    second[drafted] = replies(**engine, gpu, next, drafter);
    EXPECT_GT(snapshot_at_rest(**engine).models.at(0).pools.at(0).prefix_hit_tokens, hits + 40);
    if (drafted) continue;
    remember(asked, first);
    remember(next, second[0]);
  }
  EXPECT_EQ(second[1], second[0]);
}

TEST_F(trees_on_gpu, survive_preemption) {
  std::vector<generation_request> asked(2);
  for (std::uint32_t i = 0; i < 2; ++i) asked[i] = make_request(4, 28, i, i == 0 ? 0.0F : 1.0F);
  testing::emulated_gpu<> gpu;
  auto with = options();
  with.models[0].context_length = 44;
  with.models[0].drafters.pop_back(); // otherwise its cells would be counted
  const auto expected = replies(with, gpu, asked, "none");
  remember(asked, expected);
  with.prefix_cache = false;
  with.memory_budget_bytes = 50 * 128; // cells for a request and a half
  EXPECT_EQ(replies(with, gpu, asked, "tree"), expected);
  EXPECT_GT(counters_.num_preemptions, 0U);
}

} // namespace
} // namespace paceline
