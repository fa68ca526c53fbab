// EAGLE heads from their published layouts: what is read, what is refused and how, and passes whose rows do
// not depend on other rows. tests/e2e/head_parity.py compares the numbers with a reference.
#include "runtime/model/heads/files/head_loader.hpp"

#include "runtime/model/heads/files/head_kind.hpp"
#include "runtime/model/kv_cells.hpp"
#include "tests/support/cpu_model.hpp"
#include "tests/support/made_features.hpp"
#include "tests/support/paged_sequences.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_head.hpp"
#include "tests/support/tiny_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>

namespace paceline::test::eagle_loader_test {
namespace {

using model::eagle_version;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint32_t num_layers = 8, hidden = 32, vocab = 288;

class eagle_loader_test : public ::testing::Test {
 protected:
  eagle_loader_test() : bytes_(make_tiny_gguf({.num_layers = num_layers, .hidden_size = hidden}).build()) {
    auto parsed = model::gguf_file::parse(bytes_, "tiny.gguf");
    if (!parsed) throw std::runtime_error(parsed.error().message());
    file_.emplace(std::move(*parsed));
    target_.emplace(*file_, cpu_model_options{.num_threads = 1, .level = {}, .kv_type = kv_type::f32});
  }

  expected<std::shared_ptr<const model::draft_head>> load(const tiny_head& head, eagle_version version,
                                                          const model::head_overrides& overrides = {}) {
    head.write(folder_.path());
    const std::shared_ptr<const model::transformer> target(std::shared_ptr<void>(), &target_->get());
    return model::load_eagle_head(folder_.path(), version, target, {kv_type::f32, overrides},
                                  target_->device(), target_->device());
  }
  /// Why the head is refused.
  std::string problem(const tiny_head& head, eagle_version version = eagle_version::eagle3) {
    const auto loaded = load(head, version);
    return loaded ? "was accepted" : loaded.error().message();
  }
  tiny_head eagle3() { return tiny_head::eagle3(hidden, hidden, vocab, 100); }

  /// Logits of the last of `num_rows` rows with made-up tokens and features.
  std::vector<float> logits_at(const model::draft_head& head, std::uint32_t num_rows) {
    const auto target_kv = target_->get().make_kv_storage(8, 4, head.taps());
    make_up(*target_kv->features());
    const auto kv = head.make_kv_storage(8, 4);
    paged_sequences paged(4, 8, 3);
    paged.add_sequence(24);
    auto rows = paged.chain_rows(0, 0, num_rows);
    std::vector<std::uint32_t> cells;
    for (auto& row : rows) {
      row.token = token_id{static_cast<std::int32_t>(row.position.value * 5 % vocab)};
      cells.push_back(row.position.value);
    }
    std::vector<float> logits(head.info().vocab_size);
    target_->run([&](device::ops& ops) {
      head.forward(ops, paged.batch(rows), {target_kv->features(), cells}, kv.get(),
                   {std::vector{num_rows - 1}, logits});
    });
    return logits;
  }

  std::vector<std::byte> bytes_;
  std::optional<model::gguf_file> file_;
  std::optional<cpu_model> target_;
  scratch_folder folder_;
};

TEST_F(eagle_loader_test, reads_the_layout_of_eagle3) {
  const auto head = load(eagle3(), eagle_version::eagle3);
  ASSERT_TRUE(head) << head.error().message();
  EXPECT_THAT((*head)->taps(), ElementsAre(layer_index{1}, layer_index{3}, layer_index{4}));
  EXPECT_EQ((*head)->info().vocab_size, 100U);
  EXPECT_EQ((*head)->info().num_layers, 1U) << "the layers with tensors, not those of the config";
  EXPECT_EQ((*head)->num_embedded(), vocab) << "the target's embedding";
  ASSERT_EQ((*head)->target_ids().size(), 100U);
  EXPECT_EQ((*head)->target_ids()[7], token_id{14}) << "d2t holds offsets";
  EXPECT_EQ(model::kind_of_head(folder_.path()).value(), "eagle3");
}

TEST_F(eagle_loader_test, reads_the_layout_of_speculators) {
  auto head = eagle3();
  const auto tensors = head.tensors;
  for (const auto& [name, one] : tensors)
    if (name.starts_with("midlayer.")) head.rename(name, "layers.0." + name.substr(9));
  auto nested = head.config;
  nested.erase("draft_vocab_size");
  head.config = {{"speculators_model_type", "eagle3"},
                 {"draft_vocab_size", 100},
                 {"eagle_aux_hidden_state_layer_ids", {1, 4, 8}},
                 {"transformer_layer_config", nested}};
  const auto loaded = load(head, eagle_version::eagle3);
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_THAT((*loaded)->taps(), ElementsAre(layer_index{0}, layer_index{3}, layer_index{7}))
      << "ids are of the layer that reads";
}

TEST_F(eagle_loader_test, reads_ids_of_layers_that_wrote_where_the_config_counts_so) {
  auto head = eagle3();
  head.config["target_layer_ids"] = {0, 3, 7};
  EXPECT_THAT((*load(head, eagle_version::eagle3))->taps(),
              ElementsAre(layer_index{0}, layer_index{3}, layer_index{7}));
  head.config.erase("target_layer_ids");
  head.config["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", {2, 5, 6}}};
  EXPECT_THAT((*load(head, eagle_version::eagle3))->taps(),
              ElementsAre(layer_index{2}, layer_index{5}, layer_index{6}));
  const model::head_overrides own{.rope_theta = 0, .taps = {layer_index{4}, layer_index{2}, layer_index{0}}};
  EXPECT_THAT((*load(head, eagle_version::eagle3, own))->taps(),
              ElementsAre(layer_index{4}, layer_index{2}, layer_index{0}));
}

TEST_F(eagle_loader_test, reads_the_layout_of_eagle) {
  const auto head = load(tiny_head::eagle(hidden, vocab), eagle_version::eagle);
  ASSERT_TRUE(head) << head.error().message();
  EXPECT_THAT((*head)->taps(), ElementsAre(layer_index{num_layers})) << "after the final norm";
  EXPECT_EQ((*head)->info().vocab_size, vocab);
  EXPECT_TRUE((*head)->target_ids().empty());
  EXPECT_EQ(model::kind_of_head(folder_.path()).value(), "eagle2");
}

TEST_F(eagle_loader_test, refuses_what_does_not_fit_the_target_with_both_values) {
  auto head = eagle3();
  head.config["target_hidden_size"] = 64;
  EXPECT_THAT(problem(head),
              AllOf(HasSubstr("config.json: key 'target_hidden_size' is 64"), HasSubstr("is 32")));
  head = eagle3();
  head.config["vocab_size"] = 289;
  EXPECT_THAT(problem(head), AllOf(HasSubstr("'vocab_size' is 289"), HasSubstr("is 288")));
  head = eagle3();
  head.config["eagle_aux_hidden_state_layer_ids"] = {2, 4, 9};
  EXPECT_THAT(problem(head), HasSubstr("the target has 8 layers"));
  head.config["eagle_aux_hidden_state_layer_ids"] = {0, 4, 8};
  EXPECT_THAT(problem(head), HasSubstr("must be 1 to 8"));
  head = eagle3();
  head.add("fc.weight", {hidden, std::uint64_t{2} * hidden});
  EXPECT_THAT(problem(head), HasSubstr("tensor 'fc.weight' must have the shape [32][96], has [32][64]"));
}

TEST_F(eagle_loader_test, refuses_heads_with_parts_that_it_lacks_or_does_not_know) {
  auto head = eagle3();
  head.tensors.erase("midlayer.hidden_norm.weight");
  EXPECT_THAT(problem(head), HasSubstr("'layers.0.hidden_norm.weight' is missing"));
  head = eagle3();
  head.add("more.weight", {4});
  EXPECT_THAT(problem(head), HasSubstr("tensor 'more.weight' has no meaning"));
  head = eagle3();
  head.tensors.erase("d2t");
  EXPECT_THAT(problem(head), HasSubstr("tensor 'd2t' is missing"));
  head = eagle3();
  head.tensors.at("d2t").integers[5] = -1;
  EXPECT_THAT(problem(head), HasSubstr("token 5 has the offset -1"));
  head = eagle3();
  head.tensors.at("d2t").integers[99] = 1000;
  EXPECT_THAT(problem(head), HasSubstr("ascending ids below 288"));
  head = eagle3();
  head.tensors.erase("lm_head.weight");
  EXPECT_THAT(problem(head), HasSubstr("the draft vocabulary has 100 tokens"));
  EXPECT_THAT(problem(eagle3(), eagle_version::eagle), HasSubstr("is a head of EAGLE-3"));
  EXPECT_THAT(problem(tiny_head::eagle(hidden, vocab), eagle_version::eagle3), HasSubstr("fc.weight"));
}

TEST_F(eagle_loader_test, refuses_sizes_that_contradict_each_other) {
  auto head = tiny_head::eagle(16, vocab); // half as wide as the target's states
  head.config["target_hidden_size"] = hidden;
  EXPECT_THAT(problem(head, eagle_version::eagle), AllOf(HasSubstr("is 32"), HasSubstr("hidden_size is 16")));
  head = tiny_head::eagle(hidden, vocab); // fewer tokens than the borrowed LM head has rows
  head.config["vocab_size"] = 100;
  head.tensors["d2t"] = {{100}, {}, std::vector<std::int64_t>(100)};
  EXPECT_THAT(problem(head, eagle_version::eagle), HasSubstr("'d2t' needs an lm_head.weight"));
  head = eagle3(); // an attention with an output gate
  head.add("midlayer.self_attn.q_proj.weight", {64, std::uint64_t{2} * hidden});
  EXPECT_THAT(problem(head), HasSubstr("must have the shape [32][64], has [64][64]"));
  head = eagle3();
  head.tensors.at("d2t").integers[99] = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(problem(head), HasSubstr("token 99 has the offset"));
  head = eagle3();
  head.config["head_dim"] = 1024;
  EXPECT_THAT(problem(head), HasSubstr("'head_dim' is above 512"));
}

TEST_F(eagle_loader_test, layers_with_a_window_need_its_size) {
  auto head = eagle3();
  head.config["layer_types"] = {"full_attention"};
  EXPECT_EQ(problem(head), "was accepted");
  head.config["layer_types"] = {"sliding_attention"};
  EXPECT_THAT(problem(head), HasSubstr("'sliding_window' is missing"));
  head.config["sliding_window"] = 0;
  EXPECT_THAT(problem(head), HasSubstr("'sliding_window' must be above 0"));
  head.config["sliding_window"] = 7;
  EXPECT_EQ(problem(head), "was accepted");
  const auto logits_of = [&](std::uint32_t window) {
    head.config["sliding_window"] = window;
    return logits_at(**load(head, eagle_version::eagle3), 20);
  };
  EXPECT_EQ(logits_of(20), logits_of(64));
  EXPECT_NE(logits_of(19), logits_of(20))
      << "the row at position 19 sees position 0 if 20 positions are visible";
}

TEST_F(eagle_loader_test, reads_rotary_settings_as_trainers_write_them) {
  auto head = eagle3();
  head.config.erase("rope_theta");
  const auto outputs = [&] {
    const auto loaded = load(head, eagle_version::eagle3);
    EXPECT_TRUE(loaded) << loaded.error().message();
    return loaded ? logits_at(**loaded, 9) : std::vector<float>();
  };
  head.config["rope_theta"] = 300.0;
  const std::vector<float> wanted = outputs();
  head.config["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", {2, 1, 1}}};
  EXPECT_EQ(outputs(), wanted);
  head.config["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 4.0}};
  EXPECT_EQ(outputs(), wanted) << "as long as the text is shorter than max_position_embeddings";
  head.config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 4.0}};
  EXPECT_NE(outputs(), wanted);
  head.config.erase("rope_scaling");
  head.config.erase("rope_theta");
  head.config["rope_parameters"] = {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 5e5}}},
                                    {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 300.0}}}};
  EXPECT_EQ(outputs(), wanted);
}

TEST_F(eagle_loader_test, a_list_without_layers_stands_for_the_usual_ones) {
  auto head = eagle3();
  head.config["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", boost::json::array()}};
  EXPECT_THAT((*load(head, eagle_version::eagle3))->taps(),
              ElementsAre(layer_index{1}, layer_index{3}, layer_index{4}));
}

TEST_F(eagle_loader_test, an_own_embedding_is_also_the_lm_head_where_they_are_tied) {
  auto head = eagle3();
  head.tensors.erase("lm_head.weight");
  head.tensors.erase("d2t");
  head.config.erase("draft_vocab_size");
  const auto borrowed = load(head, eagle_version::eagle3);
  ASSERT_TRUE(borrowed) << borrowed.error().message();
  head.add("embed_tokens.weight",
           {100, hidden}); // fewer tokens than the target has, so that they can be told apart
  head.config["vocab_size"] = 100;
  head.config["tie_word_embeddings"] = true;
  const auto tied = load(head, eagle_version::eagle3);
  ASSERT_TRUE(tied) << tied.error().message();
  EXPECT_EQ((*borrowed)->info().vocab_size, vocab);
  EXPECT_EQ((*tied)->info().vocab_size, 100U);
}

TEST_F(eagle_loader_test, a_layer_that_reads_two_vectors_is_the_first_one) {
  auto head = eagle3();
  for (const auto& [name, one] : std::map(head.tensors))
    if (name.starts_with("midlayer.")) head.tensors["layers.1." + name.substr(9)] = one;
  EXPECT_THAT(problem(head),
              HasSubstr("'layers.1.hidden_norm.weight' belongs to a layer that reads two vectors"));
}

TEST_F(eagle_loader_test, refuses_norms_that_the_config_promises_and_the_file_lacks) {
  auto head = tiny_head::eagle(hidden, vocab);
  head.config["norm_output"] = true;
  EXPECT_THAT(problem(head, eagle_version::eagle), HasSubstr("'norm.weight' is missing"));
  head = eagle3();
  head.config["fc_norm"] = true;
  EXPECT_THAT(problem(head), HasSubstr("'fc_norm.0.weight' is missing"));
  head = eagle3();
  head.config["norm_before_fc"] = true;
  EXPECT_THAT(problem(head), HasSubstr("'input_norm.weight' is missing"));
}

/// A head's pass over rows of a text with made-up features.
class head_pass_test : public eagle_loader_test, public ::testing::WithParamInterface<eagle_version> {
 protected:
  void SetUp() override {
    auto loaded =
        load(GetParam() == eagle_version::eagle3 ? eagle3() : tiny_head::eagle(hidden, vocab), GetParam());
    ASSERT_TRUE(loaded) << loaded.error().message();
    head_ = *loaded;
    target_kv_ = target_->get().make_kv_storage(8, 4, head_->taps());
    make_up(*target_kv_->features());
    kv_ = head_->make_kv_storage(8, 4);
    paged_.add_sequence(24);
  }

  /// Runs positions [begin, end) with the target's features; returns their logits.
  std::vector<float> run(std::uint32_t begin, std::uint32_t end) {
    auto rows = paged_.chain_rows(0, begin, end);
    std::vector<std::uint32_t> cells, all;
    for (auto& row : rows) {
      row.token = token_id{static_cast<std::int32_t>(row.position.value * 5 % vocab)};
      cells.push_back(row.position.value);
      all.push_back(static_cast<std::uint32_t>(all.size()));
    }
    std::vector<float> logits(rows.size() * head_->info().vocab_size);
    target_->run([&](device::ops& ops) {
      head_->forward(ops, paged_.batch(rows), {target_kv_->features(), cells}, kv_.get(), {all, logits});
    });
    return logits;
  }

  std::shared_ptr<const model::draft_head> head_;
  std::unique_ptr<model::kv_storage> target_kv_, kv_;
  paged_sequences paged_{4, 8, 3};
};

TEST_P(head_pass_test, a_rows_logits_do_not_depend_on_the_rows_of_its_pass) {
  const auto whole = run(0, 20);
  kv_->poison(std::vector<block_id>{block_id{0}, block_id{1}, block_id{2}, block_id{3}, block_id{4},
                                    block_id{5}, block_id{6}, block_id{7}});
  std::vector<float> parts;
  for (std::uint32_t begin = 0, end = 1; begin < 20; begin = end, end = std::min(20U, 2 * end + 1)) {
    const auto part = run(begin, end);
    parts.insert(parts.end(), part.begin(), part.end());
  }
  ASSERT_EQ(whole.size(), parts.size());
  EXPECT_EQ(std::memcmp(whole.data(), parts.data(), whole.size() * sizeof(float)), 0);
}

TEST_P(head_pass_test, a_row_of_the_draft_reads_what_the_row_above_gave) {
  run(0, 20);
  const auto logits_with = [&](std::uint32_t cell_slot) {
    auto rows = paged_.chain_rows(0, 20, 21);
    rows[0].token = token_id{9};
    const device::kv_copy at = paged_.copy_of(0, cell_slot, cell_slot);
    const std::vector<std::uint32_t> cells{at.from_block.value * 4 + at.from_offset}, all{0};
    std::vector<float> logits(head_->info().vocab_size);
    target_->run([&](device::ops& ops) {
      head_->forward(ops, paged_.batch(rows), {nullptr, cells}, kv_.get(), {all, logits});
    });
    return logits;
  };
  const auto right = logits_with(19);
  EXPECT_EQ(right, logits_with(19));
  EXPECT_NE(right, logits_with(18));
}

INSTANTIATE_TEST_SUITE_P(versions, head_pass_test,
                         ::testing::Values(eagle_version::eagle, eagle_version::eagle3),
                         [](const auto& tested) {
                           return tested.param == eagle_version::eagle ? "eagle" : "eagle3";
                         });

} // namespace
} // namespace paceline::test::eagle_loader_test
