// DFlash and DSpark heads from their published layouts: what is read, and what is refused and how.
// tests/e2e/head_parity.py compares the numbers with a reference.
#include "runtime/model/heads/dflash/dflash_config.hpp"
#include "runtime/model/heads/files/head_kind.hpp"
#include "runtime/model/heads/files/head_loader.hpp"
#include "tests/support/cpu_model.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_head.hpp"
#include "tests/support/tiny_model.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace paceline::test::dflash_loader_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint32_t num_layers = 8, hidden = 32, vocab = 288;

class dflash_loader_test : public ::testing::Test {
 protected:
  dflash_loader_test() : bytes_(make_tiny_gguf({.num_layers = num_layers, .hidden_size = hidden}).build()) {
    auto parsed = model::gguf_file::parse(bytes_, "tiny.gguf");
    if (!parsed) throw std::runtime_error(parsed.error().message());
    file_.emplace(std::move(*parsed));
    target_.emplace(*file_, cpu_model_options{.num_threads = 1, .level = {}, .kv_type = kv_type::f32});
  }

  expected<std::shared_ptr<const model::draft_head>> load(const tiny_head& head,
                                                          const std::string& kind = "dflash",
                                                          const model::head_overrides& overrides = {}) {
    head.write(folder_.path());
    const std::shared_ptr<const model::transformer> target(std::shared_ptr<void>(), &target_->get());
    return model::load_draft_head(kind, folder_.path(), target, {kv_type::f32, overrides}, target_->device(),
                                  target_->device());
  }
  std::string problem(const tiny_head& head, const std::string& kind = "dflash") {
    const auto loaded = load(head, kind);
    return loaded ? "was accepted" : loaded.error().message();
  }
  model::head_traits traits_of(const tiny_head& head, const std::string& kind = "dflash",
                               const model::head_overrides& overrides = {}) {
    const auto loaded = load(head, kind, overrides);
    if (!loaded) throw std::runtime_error(loaded.error().message());
    return (*loaded)->traits();
  }
  static tiny_head dflash() { return tiny_head::dflash(hidden, vocab); }
  static tiny_head dspark(const std::string& kind) { return tiny_head::dspark(hidden, vocab, kind); }
  /// The same tensors in the layout of speculators, with a draft vocabulary of 100 tokens.
  static tiny_head of_speculators() {
    tiny_head head = dflash();
    auto layer = head.config;
    layer.erase("dflash_config");
    layer.erase("block_size");
    head.config = {{"speculators_model_type", "dflash"},
                   {"architectures", {"DFlashDraftModel"}},
                   {"transformer_layer_config", layer},
                   {"draft_vocab_size", 100},
                   {"block_size", 6},
                   {"aux_hidden_state_layer_ids", {1, 8}},
                   {"mask_token_id", 5}};
    head.add("embed_tokens.weight", {vocab, hidden});
    head.add("lm_head.weight", {100, hidden});
    head.add("t2d", {vocab});
    tiny_head::tensor offsets{{100}, {}, {}};
    for (std::int64_t i = 0; i < 100; ++i) offsets.integers.push_back(i);
    head.tensors["d2t"] = std::move(offsets);
    return head;
  }

  /// The config, with numbers of the types that they have after they were read from a file.
  static boost::json::object as_read(const tiny_head& head) {
    return boost::json::parse(boost::json::serialize(head.config)).as_object();
  }

  std::vector<std::byte> bytes_;
  std::optional<model::gguf_file> file_;
  std::optional<cpu_model> target_;
  scratch_folder folder_;
};

TEST_F(dflash_loader_test, reads_the_layout_of_z_lab) {
  const auto head = load(dflash());
  ASSERT_TRUE(head) << head.error().message();
  EXPECT_THAT((*head)->taps(), ElementsAre(layer_index{1}, layer_index{5})) << "what two layers imply";
  EXPECT_EQ((*head)->info().vocab_size, vocab);
  EXPECT_EQ((*head)->num_embedded(), vocab);
  const model::head_traits traits = (*head)->traits();
  EXPECT_TRUE(traits.is_parallel);
  EXPECT_FALSE(traits.block_is_causal);
  EXPECT_EQ(traits.num_block_rows, 4U);
  EXPECT_EQ(traits.first_level_row, 2U) << "the first slot gives no token";
  EXPECT_EQ(traits.max_levels, 3U);
  EXPECT_GT((*head)->info().bytes_per_token, (*head)->info().weights_bytes)
      << "a draft is one step, which reads the target's LM head too";
  EXPECT_EQ(model::kind_of_head(folder_.path()).value(), "dflash");
}

TEST_F(dflash_loader_test, reads_the_layout_of_speculators) {
  const auto head = load(of_speculators());
  ASSERT_TRUE(head) << head.error().message();
  EXPECT_THAT((*head)->taps(), ElementsAre(layer_index{0}, layer_index{7}))
      << "ids are of the layer that reads";
  EXPECT_EQ((*head)->info().vocab_size, 100U);
  EXPECT_EQ((*head)->target_ids()[7], token_id{14}) << "d2t holds offsets";
  EXPECT_EQ((*head)->traits().max_levels, 5U);
}

TEST_F(dflash_loader_test, names_of_layers_are_counted_as_the_layout_counts) {
  auto head = dflash();
  head.config["dflash_config"].as_object()["target_layer_ids"] = {0, 7};
  EXPECT_THAT((*load(head))->taps(), ElementsAre(layer_index{0}, layer_index{7})) << "the layer that wrote";
  head = dflash();
  head.config["target_layer_ids"] = {2, 3};
  EXPECT_THAT((*load(head))->taps(), ElementsAre(layer_index{2}, layer_index{3})) << "DeepSpec's place";
  EXPECT_THAT((*load(head, "dflash", {.taps = {layer_index{6}, layer_index{4}}}))->taps(),
              ElementsAre(layer_index{6}, layer_index{4}));
}

TEST_F(dflash_loader_test, the_alignment_is_the_layouts_unless_it_is_chosen) {
  auto head = of_speculators();
  EXPECT_EQ(traits_of(head).first_level_row, 2U);
  EXPECT_EQ(traits_of(head, "dflash", {.predicts_next = true, .taps = {}}).first_level_row, 1U);
  for (const char* const flag : {"sample_from_anchor", "shift_label"}) {
    head = of_speculators();
    head.config[flag] = true;
    EXPECT_EQ(traits_of(head).first_level_row, 1U) << flag;
    EXPECT_EQ(traits_of(head).max_levels, 6U) << flag;
    EXPECT_EQ(traits_of(head, "dflash", {.predicts_next = false, .taps = {}}).first_level_row, 2U);
  }
  head = dflash();
  head.config["architectures"] = {"Qwen3DSparkModel"};
  EXPECT_EQ(traits_of(head).first_level_row, 1U) << "DeepSpec";
  head.config["architectures"] = {"DSparkDraftModel"};
  EXPECT_EQ(traits_of(head).first_level_row, 1U) << "SpecForge";
  EXPECT_EQ(traits_of(dspark("vanilla"), "dspark").first_level_row, 1U) << "the Markov head tells";
  head = dspark("vanilla");
  head.config["dflash_config"].as_object().erase("markov_rank");
  head.config["dflash_config"].as_object().erase("enable_confidence_head");
  for (const auto& [name, one] : dspark("vanilla").tensors)
    if (name.starts_with("markov_") || name.starts_with("confidence_")) head.tensors.erase(name);
  EXPECT_EQ(traits_of(head, "dspark").first_level_row, 1U) << "projector_type tells";
  for (const char* const flag : {"sample_from_anchor", "shift_label"}) {
    head = dspark("vanilla");
    head.config["dflash_config"].as_object()[flag] = false;
    EXPECT_EQ(traits_of(head, "dspark").first_level_row, 2U) << flag << " beside the other fields";
    head = dflash();
    head.config["dflash_config"].as_object()[flag] = true;
    EXPECT_EQ(traits_of(head).first_level_row, 1U) << flag;
  }
  EXPECT_EQ(traits_of(dflash(), "dspark").first_level_row, 2U) << "DFlash under another name";
  head = of_speculators();
  head.config["speculators_model_type"] = "dspark";
  EXPECT_EQ(traits_of(head, "dspark").first_level_row, 1U);
}

TEST_F(dflash_loader_test, reads_matrices_that_are_stored_as_one) {
  auto head = dflash();
  head.add("layers.1.self_attn.qkv_proj.weight", {64, hidden});
  head.add("layers.1.mlp.gate_up_proj.weight", {96, hidden});
  for (const char* const part : {"self_attn.q", "self_attn.k", "self_attn.v", "mlp.gate", "mlp.up"})
    head.tensors.erase(std::string("layers.1.") + part + "_proj.weight");
  EXPECT_EQ(problem(head), "was accepted");
  head.add("layers.1.self_attn.qkv_proj.weight", {65, hidden});
  EXPECT_THAT(problem(head), HasSubstr("qkv_proj.weight' must have the shape [64][32], has [65][32]"));
}

TEST_F(dflash_loader_test, refuses_what_does_not_fit_the_target_with_both_values) {
  auto head = dflash();
  head.config["num_target_layers"] = 9;
  EXPECT_THAT(problem(head),
              AllOf(HasSubstr("config.json: key 'num_target_layers' is 9"), HasSubstr("has 8")));
  head = dflash();
  head.config["hidden_size"] = 64;
  EXPECT_THAT(problem(head), AllOf(HasSubstr("key 'hidden_size' is 64"), HasSubstr("hidden size is 32")));
  head = of_speculators();
  head.config["target_hidden_size"] = 48;
  EXPECT_THAT(problem(head), AllOf(HasSubstr("key 'target_hidden_size' is 48"), HasSubstr("is 32")));
  head = dflash();
  head.config["dflash_config"].as_object()["target_layer_ids"] = {1, 8};
  EXPECT_THAT(problem(head), HasSubstr("must be 0 to 7: the target has 8 layers"));
  head = dflash();
  head.config["dflash_config"].as_object()["mask_token_id"] = 288;
  EXPECT_THAT(problem(head), AllOf(HasSubstr("mask token 288 of mask_token_id"), HasSubstr("it has 288")));
  head = of_speculators();
  head.config["transformer_layer_config"].as_object()["vocab_size"] = 300;
  head.add("embed_tokens.weight", {300, hidden});
  EXPECT_THAT(problem(head), AllOf(HasSubstr("vocabulary of 300 tokens"), HasSubstr("target's has 288")));
  head = dflash();
  head.config["block_size"] = 66;
  EXPECT_THAT(problem(head), HasSubstr("'block_size' is 66, must be 2 to 64"));
  head.config["block_size"] = 1;
  EXPECT_THAT(problem(head), HasSubstr("'block_size' is 1, must be 2 to 64"));
  head = dflash();
  head.config["dflash_config"] = boost::json::object{};
  EXPECT_THAT(problem(head), HasSubstr("mask_token_id"));
}

TEST_F(dflash_loader_test, refuses_a_head_that_lacks_a_tensor_or_has_one_of_another_shape) {
  for (const std::string kind : {"vanilla", "gated", "rnn"}) {
    const tiny_head whole = dspark(kind);
    EXPECT_EQ(problem(whole, "dspark"), "was accepted");
    for (const auto& [name, tensor] : whole.tensors) {
      tiny_head head = whole;
      head.tensors.erase(name);
      EXPECT_THAT(problem(head, "dspark"), HasSubstr("tensor '" + name + "' is missing"));
      auto shape = tensor.shape;
      shape.back() += 1;
      head.add(name, shape);
      EXPECT_THAT(problem(head, "dspark"),
                  AllOf(HasSubstr("'" + name + "' must have the shape"), HasSubstr(", has"),
                        HasSubstr("[" + std::to_string(shape.back()) + "]")));
    }
  }
  auto head = dflash();
  head.add("more.weight", {4});
  EXPECT_THAT(problem(head), HasSubstr("tensor 'more.weight' has no meaning"));
  head = of_speculators();
  head.tensors.erase("d2t");
  EXPECT_THAT(problem(head), HasSubstr("tensor 'd2t' is missing"));
  head = of_speculators();
  head.tensors.erase("lm_head.weight");
  EXPECT_THAT(problem(head), HasSubstr("the draft vocabulary has 100 tokens, the target's 288"));
}

TEST_F(dflash_loader_test, refuses_other_networks_of_the_same_name) {
  for (const char* const key : {"selector_rank", "selector_top_k", "conv_kernel_size", "conv_group_size"}) {
    auto head = dflash();
    head.config["dflash_config"].as_object()[key] = 2;
    EXPECT_THAT(problem(head), AllOf(HasSubstr(key), HasSubstr("is of DFlash2")));
    head = dflash();
    head.config[key] = 2;
    EXPECT_THAT(problem(head), AllOf(HasSubstr(key), HasSubstr("is of DFlash2")));
  }
  auto head = of_speculators();
  head.config["projector_type"] = "domino";
  EXPECT_THAT(problem(head), HasSubstr("'projector_type' is 'domino'"));
  head = of_speculators();
  head.config["speculators_model_type"] = "dflash2";
  EXPECT_THAT(problem(head), HasSubstr("'speculators_model_type' is 'dflash2'"));
  head = dflash();
  head.config["is_causal"] = true;
  EXPECT_THAT(problem(head), HasSubstr("'is_causal' must be false"));
  head = dflash();
  head.config["dflash_config"].as_object()["final_logit_softcapping"] = 30;
  EXPECT_THAT(problem(head), HasSubstr("'final_logit_softcapping' must be 0"));
}

TEST_F(dflash_loader_test, reads_windows_and_refuses_those_that_it_cannot_compute) {
  auto head = dflash();
  head.config["layer_types"] = {"full_attention", "sliding_attention"};
  EXPECT_THAT(problem(head), HasSubstr("sliding_window"));
  head.config["sliding_window"] = 0;
  EXPECT_THAT(problem(head), HasSubstr("'sliding_window' is 0, must be 1 to 1073741824"));
  head.config["sliding_window"] = 3;
  EXPECT_EQ(problem(head), "was accepted");
  head.config["is_causal"] = false;
  EXPECT_THAT(problem(head), HasSubstr("'sliding_window' is 3, must be 4 to 1")) << "the block is wider";
  head.config["layer_types"] = {"full_attention", "chunked_attention"};
  EXPECT_THAT(problem(head), HasSubstr("'sliding_attention'"));
  head = dflash();
  head.config["layer_types"] = {"sliding_attention"};
  head.config["sliding_window"] = 3;
  EXPECT_THAT(problem(head), HasSubstr("'layer_types' must have one element for each of the 2 layers"));
  head = dflash();
  head.config["use_sliding_window"] = true;
  EXPECT_THAT(problem(head), HasSubstr("'use_sliding_window' is true, and layer_types does not say"));
  for (const char* const key : {"use_swa", "attention_sink_bias"}) {
    head = dflash();
    head.config["dflash_config"].as_object()[key] = true;
    EXPECT_THAT(problem(head), AllOf(HasSubstr(key), HasSubstr("must be false")));
  }
}

TEST_F(dflash_loader_test, what_is_said_of_all_layers_decides_whether_windows_are_causal) {
  const auto is_causal = [](const tiny_head& head) {
    const auto config = model::read_dflash_config(as_read(head), "config.json", "dflash", {.num_layers = 2},
                                                  model::head_target{num_layers, hidden, vocab}, {});
    if (!config) throw std::runtime_error(config.error().message());
    return config->window.is_causal;
  };
  auto head = dflash();
  head.config["layer_types"] = {"full_attention", "sliding_attention"};
  head.config["sliding_window"] = 8;
  EXPECT_TRUE(is_causal(head));
  auto& nested = head.config["dflash_config"].as_object();
  nested["causal"] = false;
  EXPECT_FALSE(is_causal(head));
  nested["causal"] = true;
  EXPECT_THAT(problem(head), HasSubstr("'causal' must be false: layers of full attention"));
  head.config["is_causal"] = false;
  EXPECT_FALSE(is_causal(head)) << "it comes before `causal`";
  head.config["layer_types"] = {"sliding_attention", "sliding_attention"};
  head.config["is_causal"] = true;
  EXPECT_TRUE(is_causal(head)) << "as its windows are anyway";
}

TEST(block_window, counts_positions_up_to_the_slot_or_in_the_text) {
  constexpr std::uint32_t slots = 4;
  const auto all = [](const model::block_window& window) {
    return std::vector{window.of_slot(0, slots), window.of_slot(3, slots)};
  };
  EXPECT_THAT(all({.size = 10, .is_causal = true, .ends_at_slot = true}), ElementsAre(10, 10));
  EXPECT_THAT(all({.size = 10, .is_causal = false, .ends_at_slot = true}), ElementsAre(13, 10));
  EXPECT_THAT(all({.size = 10, .is_causal = true, .ends_at_slot = false}), ElementsAre(11, 14));
  EXPECT_THAT(all({.size = 10, .is_causal = false, .ends_at_slot = false}), ElementsAre(14, 14));
}

TEST_F(dflash_loader_test, a_markov_head_makes_a_head_dspark) {
  const auto head = load(dspark("rnn"), "dspark");
  ASSERT_TRUE(head) << head.error().message();
  EXPECT_EQ(model::kind_of_head(folder_.path()).value(), "dspark");
  EXPECT_TRUE((*head)->traits().adds_to_levels());
  EXPECT_TRUE((*head)->traits().has_confidence);
  EXPECT_THAT(problem(dspark("rnn"), "dflash"),
              HasSubstr("'markov_rank' is 8: a head with a Markov head is"));
  auto other = dspark("vanilla");
  other.config["dflash_config"].as_object()["markov_head_type"] = "bilinear";
  EXPECT_THAT(problem(other, "dspark"), HasSubstr("'markov_head_type' is 'bilinear'"));
  other = dspark("gated"); // early files of SpecForge
  for (const auto& [name, one] : dspark("gated").tensors)
    if (name.starts_with("markov_") || name.starts_with("confidence_"))
      other.rename(name, "logit_head." + name);
  EXPECT_EQ(problem(other, "dspark"), "was accepted");
  for (const char* const kind : {"gated", "rnn"}) { // files of Model-Optimizer
    other = dspark(kind);
    for (const auto& [name, one] : dspark(kind).tensors)
      if (name.starts_with("markov_head."))
        other.rename(name, name.substr(12));
      else if (name.starts_with("confidence_head.proj."))
        other.rename(name, "confidence_proj." + name.substr(21));
    EXPECT_EQ(problem(other, "dspark"), "was accepted") << kind;
    EXPECT_EQ(model::kind_of_head(folder_.path()).value(), "dspark") << kind;
  }
  EXPECT_EQ(problem(dflash(), "dspark"), "was accepted") << "rank 0";
}

TEST_F(dflash_loader_test, refuses_states_that_begin_at_a_slot_without_a_token) {
  auto head = of_speculators();
  head.config["speculators_model_type"] = "dspark";
  head.config["markov_head_type"] = "rnn";
  const auto problem_of = [](const tiny_head& of) {
    const auto config =
        model::read_dflash_config(as_read(of), "config.json", "dspark", {.num_layers = 2, .markov_rank = 8},
                                  model::head_target{num_layers, hidden, vocab}, {});
    return config ? "was accepted" : config.error().message();
  };
  EXPECT_EQ(problem_of(head), "was accepted");
  head.config["sample_from_anchor"] = false;
  EXPECT_THAT(problem_of(head), HasSubstr("sample_from_anchor must be true"));
  head.config["markov_head_type"] = "gated";
  EXPECT_EQ(problem_of(head), "was accepted") << "it has no state";
}

TEST_F(dflash_loader_test, heads_of_z_lab_read_the_targets_embedding_with_its_factor) {
  const auto scale_of = [](const tiny_head& head, bool has_embedding = false) {
    const auto config = model::read_dflash_config(as_read(head), "config.json", "dspark",
                                                  {.num_layers = 2, .has_embedding = has_embedding},
                                                  model::head_target{num_layers, hidden, vocab, 5.5F}, {});
    return config ? config->embedding_scale : 0.0F;
  };
  EXPECT_EQ(scale_of(dflash()), 5.5F);
  EXPECT_EQ(scale_of(dflash(), true), 1.0F) << "its own";
  EXPECT_EQ(scale_of(dspark("vanilla")), 1.0F) << "SpecForge";
  EXPECT_EQ(scale_of(of_speculators()), 1.0F);
  auto head = dflash();
  head.config["input_embedding_scale"] = 3;
  EXPECT_EQ(scale_of(head), 3.0F);
}

TEST_F(dflash_loader_test, the_tensors_say_what_the_config_leaves_out) {
  for (const std::string kind : {"vanilla", "gated", "rnn"}) {
    auto head = dspark(kind);
    auto& fields = head.config["dflash_config"].as_object();
    for (const char* const key : {"markov_rank", "enable_confidence_head", "confidence_head_with_markov"})
      fields.erase(key);
    ASSERT_EQ(problem(head, "dspark"), "was accepted") << kind;
    EXPECT_TRUE(traits_of(head, "dspark").adds_to_levels());
    EXPECT_TRUE(traits_of(head, "dspark").has_confidence);
    head.add("confidence_head.proj.weight", {1, hidden});
    EXPECT_EQ(problem(head, "dspark"), "was accepted") << "it reads no token";
  }
  auto head = dspark("vanilla");
  head.config["dflash_config"].as_object()["markov_rank"] = 0;
  EXPECT_THAT(problem(head, "dspark"), HasSubstr("'confidence_head.proj.weight' must have the shape [32]"))
      << "what is said counts";
}

} // namespace
} // namespace paceline::test::dflash_loader_test
