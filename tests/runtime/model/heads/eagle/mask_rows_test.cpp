// Heads with mask rows, P-EAGLE and DART: what is read, what is refused and how, and passes whose rows do not
// depend on other rows. tests/e2e/head_parity.py compares the numbers with a reference.
#include "runtime/model/heads/files/head_loader.hpp"

#include "runtime/model/heads/files/head_kind.hpp"
#include "tests/support/cpu_model.hpp"
#include "tests/support/made_features.hpp"
#include "tests/support/paged_sequences.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_head.hpp"
#include "tests/support/tiny_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <stdexcept>

namespace paceline::test::mask_rows_test {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t num_layers = 8, hidden = 32, vocab = 288, num_drafted = 100;

class mask_rows_test : public ::testing::Test {
 protected:
  mask_rows_test() : bytes_(make_tiny_gguf({.num_layers = num_layers, .hidden_size = hidden}).build()) {
    auto parsed = model::gguf_file::parse(bytes_, "tiny.gguf");
    if (!parsed) throw std::runtime_error(parsed.error().message());
    file_.emplace(std::move(*parsed));
    target_.emplace(*file_, cpu_model_options{.num_threads = 1, .level = {}, .kv_type = kv_type::f32});
  }

  expected<std::shared_ptr<const model::draft_head>> load(const tiny_head& head, const std::string& kind) {
    head.write(folder_.path());
    const std::shared_ptr<const model::transformer> target(std::shared_ptr<void>(), &target_->get());
    return model::load_draft_head(kind, folder_.path(), target, {kv_type::f32, {}}, target_->device(),
                                  target_->device());
  }
  /// Why the head is refused.
  std::string problem(const tiny_head& head, const std::string& kind) {
    const auto loaded = load(head, kind);
    return loaded ? "was accepted" : loaded.error().message();
  }

  static tiny_head peagle() {
    auto head = tiny_head::eagle3(hidden, hidden, vocab, num_drafted);
    head.add("embed_tokens.weight", {vocab, hidden});
    head.add("mask_hidden", {1, 1, 3 * hidden});
    head.config["mask_token_id"] = 5;
    return head;
  }
  static tiny_head dart() {
    auto head = tiny_head::eagle3(hidden, hidden, vocab, num_drafted);
    head.add("midlayer.mask_rep", {2 * hidden});
    head.config["draft_length"] = 6;
    return head;
  }

  std::vector<std::byte> bytes_;
  std::optional<model::gguf_file> file_;
  std::optional<cpu_model> target_;
  scratch_folder folder_;
};

TEST_F(mask_rows_test, reads_the_layouts_of_p_eagle) {
  auto head = peagle();
  auto loaded = load(head, "eagle3");
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(model::kind_of_head(folder_.path()).value(), "eagle3");
  model::head_traits traits = (*loaded)->traits();
  EXPECT_TRUE(traits.is_parallel && traits.block_is_causal && traits.has_cells && traits.reads_context);
  EXPECT_EQ(traits.max_levels, model::head_traits::token_limit) << "as many as are asked for";
  EXPECT_EQ(traits.num_block_rows, model::head_traits::token_limit - 1);
  EXPECT_EQ(traits.first_level_row, 0U) << "the newest row predicts, too";
  head.config["para_depths"] = 8;
  EXPECT_EQ((*load(head, "eagle3"))->traits().max_levels, 8U);
  head.config["speculators_config"] = {{"proposal_methods", {{{"speculative_tokens", 5}}}}};
  EXPECT_EQ((*load(head, "eagle3"))->traits().max_levels, 8U) << "what is said of the training counts";
  head.config.erase("para_depths");
  EXPECT_EQ((*load(head, "eagle3"))->traits().max_levels, 5U);
  for (const char* const key : {"pard_token", "ptd_token_id"}) {
    head.config.erase("mask_token_id");
    head.config.erase("pard_token");
    head.config[key] = 5;
    EXPECT_TRUE(load(head, "eagle3")) << key;
  }
}

TEST_F(mask_rows_test, reads_the_layout_of_dart) {
  const auto loaded = load(dart(), "dart");
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(model::kind_of_head(folder_.path()).value(), "dart");
  EXPECT_EQ((*loaded)->info().architecture, "dart");
  EXPECT_EQ((*loaded)->traits().max_levels, 7U) << "that of the newest row and six of mask rows";
  EXPECT_EQ((*loaded)->traits().num_block_rows, 6U);
  EXPECT_EQ((*loaded)->info().vocab_size, num_drafted);
  EXPECT_EQ((*loaded)->target_ids()[7], token_id{14});
}

TEST_F(mask_rows_test, keeps_no_hidden_states_that_nobody_reads) {
  const auto fed_back = load(tiny_head::eagle3(hidden, hidden, vocab, num_drafted), "eagle3");
  for (const auto& [head, kind] : {std::pair(peagle(), "eagle3"), std::pair(dart(), "dart")}) {
    const auto loaded = load(head, kind);
    EXPECT_EQ((*loaded)->make_kv_storage(2, 4)->features(), nullptr);
    EXPECT_EQ((*loaded)->info().kv_bytes_per_token + hidden * sizeof(float),
              (*fed_back)->info().kv_bytes_per_token);
  }
}

TEST_F(mask_rows_test, refuses_p_eagle_without_its_token_embedding_or_vector) {
  auto head = peagle();
  head.config.erase("mask_token_id");
  EXPECT_THAT(problem(head, "eagle3"), HasSubstr("config.json: key 'mask_token_id' is missing"));
  head = peagle();
  head.config["mask_token_id"] = 300;
  EXPECT_THAT(problem(head, "eagle3"), HasSubstr("'mask_token_id' is 300, vocab_size is 288"));
  for (const int depths : {0, 65}) {
    head = peagle();
    head.config["para_depths"] = depths;
    EXPECT_THAT(problem(head, "eagle3"),
                HasSubstr("'para_depths' is " + std::to_string(depths) + ", must be 1 to 64"));
  }
  head = peagle();
  head.tensors.erase("embed_tokens.weight");
  EXPECT_THAT(problem(head, "eagle3"), HasSubstr("tensor 'embed_tokens.weight' is missing"));
  head = peagle();
  head.add("mask_hidden", {1, 1, 2 * hidden});
  EXPECT_THAT(problem(head, "eagle3"), HasSubstr("'mask_hidden' must have the shape [96], has [1][1][64]"));
  head = peagle();
  head.tensors.erase("mask_hidden");
  EXPECT_TRUE(load(head, "eagle3")) << "a head of EAGLE-3";
  head.config["speculators_model_type"] = "peagle";
  EXPECT_THAT(problem(head, "eagle3"), HasSubstr("tensor 'mask_hidden' is missing"));
  head = tiny_head::eagle(hidden, vocab);
  head.config["speculators_model_type"] = "peagle";
  EXPECT_THAT(problem(head, "eagle2"),
              HasSubstr("'speculators_model_type' is 'peagle': such a head is of kind eagle3"));
}

TEST_F(mask_rows_test, refuses_dart_without_its_length_or_vector) {
  auto head = dart();
  head.config.erase("draft_length");
  EXPECT_THAT(problem(head, "dart"), HasSubstr("key 'draft_length'"));
  head.config["draft_length"] = 64;
  EXPECT_THAT(problem(head, "dart"), HasSubstr("'draft_length' is 64, at most 63"));
  head = dart();
  head.add("midlayer.mask_rep", {hidden});
  EXPECT_THAT(problem(head, "dart"), HasSubstr("'midlayer.mask_rep' must have the shape [64], has [32]"));
  head.tensors.erase("midlayer.mask_rep");
  EXPECT_THAT(problem(head, "dart"), HasSubstr("tensor 'layers.0.mask_rep' is missing"));
  EXPECT_THAT(problem(dart(), "eagle3"), HasSubstr("is a head of DART, the kind is not dart"));
}

/// Passes over rows of a text with made-up features, and over mask rows after it.
class mask_pass_test : public mask_rows_test, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    const bool is_dart = std::string(GetParam()) == "dart";
    auto loaded = load(is_dart ? dart() : peagle(), is_dart ? "dart" : "eagle3");
    ASSERT_TRUE(loaded) << loaded.error().message();
    head_ = *loaded;
    target_kv_ = target_->get().make_kv_storage(8, 4, head_->taps());
    make_up(*target_kv_->features());
    kv_ = head_->make_kv_storage(8, 4);
    paged_.add_sequence(28);
  }

  struct inputs {
    std::vector<device::batch_entry> rows;
    std::vector<std::uint32_t> cells, levels;
  };
  /// Rows of positions [begin, end) and `num_masks` mask rows behind the last one.
  inputs rows_of(std::uint32_t begin, std::uint32_t end, std::uint32_t num_masks = 0) const {
    inputs made{paged_.chain_rows(0, begin, end + num_masks), {}, {}};
    for (auto& row : made.rows) {
      const std::uint32_t position = std::min(row.position.value, end - 1);
      row.token = token_id{static_cast<std::int32_t>(position * 5 % vocab)};
      made.cells.push_back(position);
      made.levels.push_back(row.position.value - position);
    }
    return made;
  }

  std::vector<float> run(const inputs& from) {
    std::vector<std::uint32_t> all;
    for (std::uint32_t r = 0; r < from.rows.size(); ++r) all.push_back(r);
    std::vector<float> logits(all.size() * num_drafted);
    target_->run([&](device::ops& ops) {
      head_->forward(ops, paged_.batch(from.rows), {target_kv_->features(), from.cells, from.levels},
                     kv_.get(), {all, logits});
    });
    return logits;
  }

  std::shared_ptr<const model::draft_head> head_;
  std::unique_ptr<model::kv_storage> target_kv_, kv_;
  paged_sequences paged_{4, 8, 3};
};

TEST_P(mask_pass_test, mask_rows_do_not_depend_on_the_passes_that_made_the_text_or_on_those_behind_them) {
  const auto whole = run(rows_of(0, 20, 6));
  run(rows_of(0, 13));
  const auto rest = run(rows_of(13, 20, 3));
  EXPECT_EQ(std::memcmp(whole.data() + 13 * num_drafted, rest.data(), rest.size() * sizeof(float)), 0);
}

TEST_P(mask_pass_test, mask_rows_differ_by_place_and_not_by_token) {
  auto rows = rows_of(0, 20, 2);
  const auto logits = run(rows);
  const float* const first = logits.data() + 20 * num_drafted;
  EXPECT_NE(std::memcmp(first, first + num_drafted, num_drafted * sizeof(float)), 0);
  rows.rows[20].token = rows.rows[21].token = token_id{9};
  rows.cells[20] = rows.cells[21] = 3;
  EXPECT_EQ(run(rows), logits) << "their inputs are the head's own";
}

INSTANTIATE_TEST_SUITE_P(heads, mask_pass_test, ::testing::Values("peagle", "dart"),
                         [](const auto& tested) { return std::string(tested.param); });

} // namespace
} // namespace paceline::test::mask_rows_test
