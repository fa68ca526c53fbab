#pragma once

#include "engine/probe.hpp"
#include "engine/snapshot.hpp"
#include "tests/engine/emulated_gpu.hpp"
#include "tests/engine/generation.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace paceline::testing {

/// Base of tests that compare the replies of a tiny model, whose file they write to `path_`, in whole
/// engines: with drafters and without, together and alone.
class served_model : public ::testing::Test {
 protected:
  using all_tokens = std::vector<std::vector<token_id>>;

  /// The model with a drafter "ngram", which is not the default.
  config::engine_options basic_options() const {
    config::engine_options out;
    out.threads = 2;
    out.pass_timing = std::chrono::milliseconds(20);
    auto& model = out.models.emplace_back();
    model.name = "tiny";
    model.path = path_;
    model.block_size = 4; // drafts cross block boundaries
    model.default_drafter = "none";
    model.drafters.push_back(test::options_of("ngram", "ngram"));
    model.drafters.back().ngram_min = 1;
    return out;
  }

  /// Two drafters that are the model of a file: one drafts chains, the other trees.
  static void add_draft_model(config::model_options& to, const std::filesystem::path& path,
                              const std::string& chain_name, const std::string& tree_name) {
    to.drafters.push_back(test::options_of(chain_name, "model"));
    to.drafters.back().path = path;
    to.drafters.push_back(test::options_of(tree_name, "model"));
    auto& tree = to.drafters.back();
    tree.path = path;
    tree.tree = config::tree_kind::dynamic;
    tree.tree_top_k = 2;
  }

  /// Greedy and sampled requests, whose prompts share prefixes and are `step` tokens longer each.
  std::vector<generation_request> requests(std::uint32_t step) const {
    std::vector<generation_request> all;
    for (std::uint32_t i = 0; i < num_requests_; ++i) {
      all.push_back(make_request(5 + step * i, num_tokens_ + i, i % 3, i % 2 == 0 ? 0.0F : 1.0F));
      all.back().speculation.draft_length = 1 + i % 5;
    }
    return all;
  }

  /// The replies of a new engine to all requests, together or one after another. GPUs are emulated.
  all_tokens serve(const config::engine_options& options, const std::vector<generation_request>& wanted,
                   bool together) {
    emulated_gpu<> gpu;
    auto engine = engine_probe::start(options, speculation::drafter_registry::with_built_in(), gpu.opener());
    if (!engine) {
      ADD_FAILURE() << engine.error().message();
      return {};
    }
    std::vector<generation> all(wanted.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      (*engine)->submit(wanted[i], all[i].sink());
      if (!together) all[i].wait();
    }
    if (disturb_) {
      engine_probe probe(**engine);
      for (std::size_t n = 1; n < num_tokens_ && !all[0].is_done(); n += 4) {
        all[0].wait_for_tokens(n);
        disturb_(probe);
      }
    }
    all_tokens out;
    for (const generation& reply : all) {
      reply.wait();
      EXPECT_NE(reply.last().finish, finish_reason::error) << reply.last().failure->message();
      out.push_back(reply.tokens());
    }
    figures_ = snapshot_at_rest(**engine).models.at(0);
    num_accepted_ = num_drafted_ = 0;
    for (const auto& one : figures_.drafters) {
      num_accepted_ += one.num_accepted_tokens;
      num_drafted_ += one.num_draft_tokens;
    }
    return out;
  }
  std::uint64_t num_hits() const { return figures_.pools.at(0).prefix_hit_tokens; }

  test::scratch_folder folder_;
  std::filesystem::path path_ = folder_ / "tiny.gguf";
  /// If set, it is called several times while the requests of the next engine run together.
  std::function<void(engine_probe&)> disturb_;
  std::uint32_t num_requests_ = 10;
  std::uint32_t num_tokens_ = 20; ///< of the first reply
  model_counters figures_;        ///< of the last engine, as are the next
  std::uint64_t num_accepted_ = 0, num_drafted_ = 0;
};

} // namespace paceline::testing
