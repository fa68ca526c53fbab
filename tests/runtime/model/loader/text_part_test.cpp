#include "runtime/model/loader/text_part.hpp"

#include "runtime/model/loader/gguf/gguf_model.hpp"
#include "runtime/model/loader/hugging_face/hf_directory.hpp"
#include "runtime/model/loader/report/model_report.hpp"
#include "tests/support/all_tensors.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_hf_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace paceline::model {
namespace {

using test::write_text;
using testing::HasSubstr;

const std::string outer_members =
    R"({"model_type":"gemma3","architectures":["Gemma3ForConditionalGeneration"],"vision_config":{"hidden_size":16},)";

/// A model in parts: how its file names the tensors of the language model.
using renaming = std::function<std::string(const std::string&)>;

/// As published, and as newer versions of transformers write it.
std::string published(const std::string& name) { return "language_model." + name; }
std::string newer(const std::string& name) {
  return name.starts_with("model.") ? "model.language_model." + name.substr(6) : name;
}
std::string alone(const std::string& name) { return name; }

class text_parts : public testing::Test {
 protected:
  /// Writes `options` as the language model of a model that sees and hears; `left_out` is one of its tensors.
  void write(const test::tiny_model& options, const renaming& renamed, const std::string& left_out = "") {
    test::write_tiny_hf(options, alone_);
    const auto whole = safetensors_file::open(alone_ / "model.safetensors");
    ASSERT_TRUE(whole);
    test::safetensors_builder builder;
    for (const auto& tensor : whole->tensors()) {
      if (tensor.name == left_out) continue;
      ASSERT_TRUE(whole->from()->read(tensor.data));
      builder.add(renamed(tensor.name), "F32", {tensor.shape.begin(), tensor.shape.begin() + tensor.num_dims},
                  {tensor.data.begin(), tensor.data.end()});
    }
    const auto other = [&](const char* name, const std::vector<std::uint64_t>& shape, std::uint64_t count) {
      builder.add(name, "BF16", shape, std::vector<std::byte>(2 * count));
    };
    other("vision_tower.vision_model.embeddings.patch_embedding.weight", {4, 3, 2, 2}, 48);
    other("model.visual.patch_embed.proj.weight", {4, 3, 2, 2, 2}, 96);
    other("multi_modal_projector.mm_input_projection_weight", {4, 32}, 128);
    other("model.audio_tower.layers.0.norm.weight", {4}, 4);
    other("model.embed_vision.embedding_projection.weight", {2, 4}, 8);
    builder.add("vision_tower.position_ids", "I64", {1, 2}, std::vector<std::byte>(16));
    std::filesystem::create_directories(directory_);
    test::write_bytes(directory_ / "model.safetensors", builder.build());
    write_config(R"("text_config":)" + test::tiny_hf_config(options));
  }

  void write_config(const std::string& members) {
    write_text(directory_ / "config.json", outer_members + members + "}");
  }

  expected<weights_source> read() const {
    const auto opened = hf_directory::open(directory_);
    if (!opened) return opened.error();
    return read_hf_weights(*opened);
  }

  std::string problem() const {
    const auto weights = read();
    return weights ? "was accepted" : weights.error().message();
  }

  test::scratch_folder folder_;
  std::filesystem::path directory_ = folder_ / "model";
  std::filesystem::path alone_ = folder_ / "alone";
};

constexpr std::uint64_t other_bytes = 2 * (48 + 96 + 128 + 4 + 8) + 16;

TEST_F(text_parts, the_language_model_is_loaded_whatever_its_prefix) {
  for (const auto arch : {architecture::gemma3, architecture::llama, architecture::qwen3moe})
    for (const renaming& renamed : {renaming(published), renaming(newer), renaming(alone)}) {
      for (const bool tied : {false, true}) {
        write({.arch = arch, .tied_embeddings = tied}, renamed);
        const auto nested = read(), whole = read_hf_weights(*hf_directory::open(alone_));
        ASSERT_TRUE(nested) << nested.error().message();
        EXPECT_EQ(nested->skipped().num_tensors, 6U);
        EXPECT_EQ(nested->skipped().num_bytes, other_bytes);
        EXPECT_EQ(nested->total_bytes(), whole->total_bytes());
        const auto ours = test::all_tensors(*nested), theirs = test::all_tensors(*whole);
        ASSERT_EQ(ours.size(), theirs.size());
        for (std::size_t i = 0; i < ours.size(); ++i) {
          const auto a = ours[i].second.tensor.bytes, b = theirs[i].second.tensor.bytes;
          ASSERT_TRUE(nested->read(a) && whole->read(b));
          EXPECT_TRUE(std::ranges::equal(a, b)) << ours[i].first;
        }
      }
    }
}

TEST_F(text_parts, the_config_is_the_inner_one_with_the_defaults_of_its_class) {
  write({.arch = architecture::gemma3}, published);
  write_text(directory_ / "generation_config.json", R"({"eos_token_id":7})");
  auto inner = test::tiny_hf_config({.arch = architecture::gemma3});
  write_config(R"("eos_token_id":[1,5],"text_config":)" + inner);
  const auto opened = hf_directory::open(directory_);
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_EQ(opened->config.arch, architecture::gemma3);
  EXPECT_EQ(opened->config.hidden_size, 32U) << "and not that of the vision part";
  EXPECT_THAT(opened->eos_ids, testing::ElementsAre(token_id{1}, token_id{5}, token_id{7}));
  // The published gemma-3-4b: only what differs from the class is there.
  write_config(R"("text_config":{"hidden_size":2560,"intermediate_size":10240,"model_type":"gemma3_text",
      "num_hidden_layers":34,"rope_scaling":{"factor":8.0,"rope_type":"linear"},"sliding_window":1024})");
  const auto config = hf_directory::open(directory_)->config;
  EXPECT_EQ(config.vocab_size, 262208U);
  EXPECT_EQ(config.context_length, 131072U);
  EXPECT_EQ(config.num_layers, 34U);
  EXPECT_EQ(config.num_heads, 8U);
  EXPECT_EQ(config.num_kv_heads, 4U);
  EXPECT_EQ(config.head_dim, 256U);
  EXPECT_EQ(config.rope.scaling.factor, 8);
  EXPECT_EQ(config.num_layers - static_cast<std::uint32_t>(std::ranges::count(config.local_layers, true)),
            5U);
  EXPECT_TRUE(config.tied_embeddings);
}

TEST_F(text_parts, a_tied_head_may_be_said_on_either_level) {
  const auto tied = [&](const std::string& outer, const std::string& inner) {
    write_config(outer + R"("text_config":{"model_type":"llama","vocab_size":288,"hidden_size":32,
        "num_hidden_layers":2,"num_attention_heads":4)" +
                 inner + "}");
    const auto opened = hf_directory::open(directory_);
    EXPECT_TRUE(opened) << opened.error().message();
    return opened->config.tied_embeddings;
  };
  write({}, published);
  EXPECT_FALSE(tied("", ""));
  EXPECT_TRUE(tied(R"("tie_word_embeddings":true,)", ""));
  EXPECT_TRUE(tied("", R"(,"tie_word_embeddings":true)"));
  // The class around the language model decides.
  EXPECT_TRUE(tied(R"("tie_word_embeddings":true,)", R"(,"tie_word_embeddings":false)"));
  EXPECT_FALSE(tied(R"("tie_word_embeddings":false,)", R"(,"tie_word_embeddings":true)"));
}

TEST_F(text_parts, a_wrong_config_is_named) {
  write({.arch = architecture::gemma3}, published);
  EXPECT_EQ(problem(), "was accepted");
  const auto refused = [&](const std::string& members) {
    write_config(members);
    return problem();
  };
  EXPECT_THAT(refused(R"("text_config":3)"), HasSubstr("config.json: key 'text_config' must be an object"));
  EXPECT_THAT(refused(R"("text_config":[])"), HasSubstr("config.json: key 'text_config' must be an object"));
  EXPECT_THAT(refused(R"("text_config":null)"), HasSubstr("key 'model_type' is 'gemma3' (a vision model)"));
  EXPECT_THAT(refused(R"("text_config":{"model_type":"gemma3n_text"})"),
              HasSubstr("text_config: key 'model_type' is 'gemma3n_text'; supported are"));
  EXPECT_THAT(refused(R"("text_config":{"vocab_size":288})"),
              HasSubstr("text_config: key 'model_type' is ''; supported are"));
  EXPECT_THAT(refused(R"("text_config":{"model_type":"gemma3_text","hidden_size":-1})"),
              HasSubstr("text_config: key 'hidden_size' must be an integer"));
  EXPECT_THAT(refused(R"("is_encoder_decoder":true,"text_config":{"model_type":"llama"})"),
              HasSubstr("key 'is_encoder_decoder' must be false"));
  write_text(directory_ / "config.json",
             R"({"model_type":"gemma3","architectures":["Gemma3ForSequenceClassification"],
                 "text_config":{"model_type":"gemma3_text"}})");
  EXPECT_THAT(problem(), HasSubstr("'architectures' names no causal language model"));
}

TEST_F(text_parts, a_missing_tensor_is_named_as_the_file_would_name_it) {
  const test::tiny_model options{.arch = architecture::gemma3, .tied_embeddings = false};
  const std::string down = "model.layers.1.mlp.down_proj.weight";
  write(options, published, down);
  EXPECT_THAT(problem(), HasSubstr("'language_model.model.layers.1.mlp.down_proj.weight' is missing"));
  write(options, newer, down);
  EXPECT_THAT(problem(), HasSubstr("'model.language_model.layers.1.mlp.down_proj.weight' is missing"));
  write(options, alone, down);
  EXPECT_THAT(problem(), HasSubstr("'model.layers.1.mlp.down_proj.weight' is missing"));
  write(options, published, "lm_head.weight");
  EXPECT_THAT(problem(), HasSubstr("'language_model.lm_head.weight' is missing"));
  write(options, newer, "lm_head.weight");
  EXPECT_THAT(problem(), HasSubstr("tensor 'lm_head.weight' is missing"));
  write(options, [](const std::string& name) { return "model.vision_tower." + name; });
  EXPECT_THAT(problem(), HasSubstr("a model of 2 layers needs 26 tensors in them, the file has 0"));
}

TEST_F(text_parts, two_prefixes_for_one_tensor_are_refused) {
  write({.arch = architecture::gemma3}, [](const std::string& name) {
    return name == "model.norm.weight" ? published("model.layers.0.input_layernorm.weight") : newer(name);
  });
  EXPECT_THAT(problem(), HasSubstr("input_layernorm.weight' occurs twice"));
}

TEST_F(text_parts, a_report_has_one_line_about_them) {
  write({.arch = architecture::gemma3}, published);
  const auto report = inspect_model(directory_);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->problem, "");
  EXPECT_THAT(to_text(*report),
              HasSubstr("\n6 tensors (584 bytes) of vision and audio parts are not used\n"));
  EXPECT_THAT(to_json(*report), HasSubstr(R"("skipped":{"num_tensors":6,"num_bytes":584})"));
  const auto whole = inspect_model(alone_);
  EXPECT_THAT(to_text(*whole), testing::Not(HasSubstr("not used")));
  EXPECT_THAT(to_json(*whole), HasSubstr(R"("skipped":null)"));
}

TEST(text_part, tensors_and_keys_of_other_parts_of_a_gguf_file_are_skipped) {
  const test::scratch_folder folder;
  auto file = test::make_tiny_gguf({.arch = architecture::gemma3});
  file.set_uint32("gemma3.vision.block_count", 27).set_uint32("gemma3.audio.block_count", 2);
  file.add_tensor("v.patch_embd.weight", device::tensor_type::f16, {2, 2, 3, 4}, std::vector<std::byte>(96));
  file.add_tensor("a.blk.0.ln1.weight", device::tensor_type::f32, {4}, std::vector<std::byte>(16));
  file.add_tensor("mm.input_projection.weight", device::tensor_type::f32, {4, 2}, std::vector<std::byte>(32));
  const auto path = folder / "model.gguf";
  file.write(path);
  const auto opened = gguf_file::open(path);
  const auto weights = read_gguf_weights(*opened, *read_gguf_config(*opened));
  ASSERT_TRUE(weights) << weights.error().message();
  EXPECT_EQ(weights->skipped().num_tensors, 3U);
  EXPECT_EQ(weights->skipped().num_bytes, 144U);
  const auto report = inspect_model(path);
  EXPECT_EQ(report->problem, "");
  EXPECT_THAT(to_text(*report),
              HasSubstr("\n3 tensors (144 bytes) of vision and audio parts are not used\n"));
}

TEST(text_part, a_module_that_no_drafter_reads_is_skipped) {
  const test::scratch_folder folder;
  auto file = test::make_tiny_gguf({.arch = architecture::qwen35});
  file.add_tensor("mtp.fc.weight", device::tensor_type::f32, {64, 32}, std::vector<std::byte>(8192));
  file.write(folder / "model.gguf");
  const auto report = inspect_model(folder / "model.gguf");
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->problem, "");
  EXPECT_THAT(to_text(*report), HasSubstr("\n1 tensor (8.0 KiB) of a module for multi-token prediction in a "
                                          "form that no drafter reads is not used\n"));
  EXPECT_THAT(to_text(*report), testing::Not(HasSubstr("a drafter of kind mtp")));
}

TEST(text_part, names_of_the_language_model_are_not_taken_for_those_of_other_parts) {
  for (const auto* name : {"model.layers.0.self_attn.q_proj.weight", "lm_head.weight",
                           "language_model.model.layers.0.vision_gate.weight"})
    EXPECT_FALSE(is_beside_text(name, tensor_naming::hugging_face)) << name;
  for (const auto* name : {"blk.0.attn_v.weight", "output.weight", "altogether.weight", "mma.weight"})
    EXPECT_FALSE(is_beside_text(name, tensor_naming::gguf)) << name;
  EXPECT_EQ(name_like(name_alone("language_model.lm_head.weight"), "language_model.lm_head.weight"),
            "language_model.lm_head.weight");
}

TEST(text_part, names_of_modules_are_those_of_a_model_alone) {
  for (const char* const prefix : {"mtp.", "model.mtp.", "language_model.mtp.", "model.language_model.mtp.",
                                   "language_model.model.mtp."})
    EXPECT_EQ(name_alone(std::string(prefix) + "fc.weight"), "mtp.fc.weight");
  EXPECT_EQ(name_alone("model.mtp_layers.0.fc.weight"), "model.mtp_layers.0.fc.weight") << "MiMo";
}

TEST(text_part, one_tensor_is_not_called_several) {
  EXPECT_EQ(to_text(skipped_tensors{1, 2048}), "1 tensor (2.0 KiB) of vision and audio parts is not used");
  EXPECT_EQ(to_text(skipped_tensors{}), "");
}

} // namespace
} // namespace paceline::model
