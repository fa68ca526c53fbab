#pragma once

#include "runtime/model/heads/files/head_loader.hpp"
#include "tests/support/cpu_model.hpp"
#include "tests/support/made_features.hpp"
#include "tests/support/paged_sequences.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_head.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace paceline::test {

/// A small target, and heads that are written and loaded for it.
class head_test : public ::testing::Test {
 protected:
  static constexpr std::uint32_t num_layers = 8, hidden = 32, vocab = 288, ffn = 64;

  explicit head_test(model::architecture target = model::architecture::llama) { set_target(target); }

  /// Replaces the target.
  void set_target(model::architecture arch, std::uint32_t hidden_size = hidden) {
    target_.reset();
    bytes_ = make_tiny_gguf({.arch = arch, .num_layers = num_layers, .hidden_size = hidden_size}).build();
    auto parsed = model::gguf_file::parse(bytes_, "tiny.gguf");
    if (!parsed) throw std::runtime_error(parsed.error().message());
    file_.emplace(std::move(*parsed));
    target_.emplace(*file_, cpu_model_options{.num_threads = 1, .level = {}, .kv_type = kv_type::f32});
  }

  expected<std::shared_ptr<const model::draft_head>> load(const std::string& kind, const tiny_head& head) {
    head.write(folder_.path());
    return load(kind, folder_.path());
  }
  expected<std::shared_ptr<const model::draft_head>> load(const std::string& kind,
                                                          const std::filesystem::path& path) {
    const std::shared_ptr<const model::transformer> target(std::shared_ptr<void>(), &target_->get());
    return model::load_draft_head(kind, path, target, {kv_type::f32, {}}, target_->device(),
                                  target_->device());
  }
  /// Why the head is refused.
  std::string problem(const std::string& kind, const tiny_head& head) {
    const auto loaded = load(kind, head);
    return loaded ? "was accepted" : loaded.error().message();
  }

  /// Runs a head without cells (Medusa) on one row with made-up features of the target. Returns the logits of
  /// all its levels.
  std::vector<float> logits_of(const model::draft_head& head) {
    constexpr std::uint32_t block_size = 4;
    const auto target_kv = target_->get().make_kv_storage(1, block_size, head.taps());
    make_up(*target_kv->features());
    paged_sequences paged{block_size, 1, 1};
    paged.add_sequence(1);
    auto rows = paged.chain_rows(0, 0, 1);
    rows[0].token = token_id{9};
    const std::vector<std::uint32_t> first{0};
    const std::uint32_t num_levels = head.traits().max_levels;
    std::vector<float> logits(std::size_t{num_levels} * head.info().vocab_size);
    target_->run([&](device::ops& ops) {
      head.forward(ops, paged.batch(rows), {target_kv->features(), first, first}, nullptr,
                   {first, logits, num_levels});
    });
    return logits;
  }
  void expect_equal(const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4) << i;
  }

  std::vector<std::byte> bytes_;
  std::optional<model::gguf_file> file_;
  std::optional<cpu_model> target_;
  scratch_folder folder_;
};

} // namespace paceline::test
