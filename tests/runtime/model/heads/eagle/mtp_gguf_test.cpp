// Modules for multi-token prediction in GGUF files of their model, or in files with nothing else of it: which
// files have one, and what is wrong with those that do not fit. tests/e2e/head_parity.py compares their
// drafts.
#include "runtime/model/heads/files/head_kind.hpp"
#include "runtime/model/heads/files/head_loader.hpp"
#include "runtime/model/heads/files/head_report.hpp"
#include "tests/support/cpu_model.hpp"
#include "tests/support/made_features.hpp"
#include "tests/support/paged_sequences.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace paceline::test {
namespace {

using model::architecture;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class mtp_gguf_test : public ::testing::Test {
 protected:
  static gguf_builder model_file() {
    return make_tiny_gguf({.arch = architecture::qwen35, .num_layers = 4, .mtp_module = true});
  }

  /// The module's tensors and the file's keys.
  static gguf_builder module_alone() {
    auto file = model_file();
    std::vector<std::string> others;
    for (const auto& tensor : file.tensors())
      if (!tensor.name.starts_with("blk.4.")) others.push_back(tensor.name);
    for (const std::string& name : others) file.remove_tensor(name);
    return file;
  }

  mtp_gguf_test() {
    model_file().write(folder_ / "target.gguf");
    target_.emplace(cpu_model::open(folder_ / "target.gguf", {}));
  }

  expected<std::shared_ptr<const model::draft_head>> load(const gguf_builder& file) {
    const auto path = folder_ / "module.gguf";
    file.write(path);
    const std::shared_ptr<const model::transformer> target(std::shared_ptr<void>(), &target_->get());
    return model::load_draft_head("mtp", path, target, {kv_type::f32, {}}, target_->device(),
                                  target_->device());
  }

  std::string problem(const gguf_builder& file) {
    const auto head = load(file);
    return head ? "was accepted" : head.error().message();
  }

  /// Logits of the first row. Its features of the target are made up.
  std::vector<float> logits_of(const gguf_builder& file) {
    const auto head = load(file);
    if (!head) throw std::runtime_error(head.error().message());
    constexpr std::uint32_t block_size = 4;
    const auto target_kv = target_->get().make_kv_storage(1, block_size, (*head)->taps());
    make_up(*target_kv->features());
    const auto kv = (*head)->make_kv_storage(1, block_size);
    paged_sequences paged(block_size, 1, 1);
    paged.add_sequence(1);
    auto rows = paged.chain_rows(0, 0, 1);
    rows[0].token = token_id{9};
    const std::vector<std::uint32_t> first{0};
    std::vector<float> logits((*head)->info().vocab_size);
    target_->run([&](device::ops& ops) {
      (*head)->forward(ops, paged.batch(rows), {target_kv->features(), first, first}, kv.get(),
                       {first, logits});
    });
    return logits;
  }

  scratch_folder folder_;
  std::optional<cpu_model> target_;
};

TEST_F(mtp_gguf_test, is_found_in_the_file_of_its_model_and_alone) {
  for (const auto& file : {model_file(), module_alone()}) {
    const auto head = load(file);
    ASSERT_TRUE(head) << head.error().message();
    EXPECT_EQ((*head)->info().architecture, "mtp");
    EXPECT_THAT((*head)->taps(), ElementsAre(layer_index{4})) << "the state behind the final norm";
    EXPECT_EQ((*head)->info().vocab_size, 288U);
    const auto kind = model::kind_of_head(folder_ / "module.gguf");
    ASSERT_TRUE(kind) << kind.error().message();
    EXPECT_EQ(*kind, "mtp");
    const auto report = model::inspect_head(folder_ / "module.gguf");
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->problem, "");
  }
}

TEST_F(mtp_gguf_test, without_a_final_norm_uses_the_targets) {
  const std::string name = "blk.4.nextn.shared_head_norm.weight";
  const auto with_norm = model_file();
  const auto norms = with_norm.tensors();
  const auto of_target = std::ranges::find(norms, "output_norm.weight", &gguf_builder::tensor::name);
  ASSERT_NE(of_target, norms.end());
  auto with_copy = module_alone().remove_tensor(name);
  with_copy.add_tensor(name, of_target->type, of_target->shape, of_target->data);
  const auto logits = logits_of(module_alone().remove_tensor(name));
  EXPECT_EQ(logits, logits_of(with_copy));
  EXPECT_EQ(logits, logits_of(model_file().remove_tensor(name)));
  EXPECT_NE(logits, logits_of(module_alone()));
}

TEST_F(mtp_gguf_test, a_missing_tensor_has_its_name_in_the_file) {
  for (const std::string part :
       {"nextn.enorm", "nextn.hnorm", "attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "attn_q_norm",
        "attn_k_norm", "post_attention_norm", "ffn_gate", "ffn_up", "ffn_down"}) {
    const std::string name = "blk.4." + part + ".weight";
    EXPECT_THAT(problem(module_alone().remove_tensor(name)), HasSubstr("tensor '" + name + "' is missing"));
  }
}

TEST_F(mtp_gguf_test, an_own_embedding_is_used) {
  auto file = model_file();
  const auto all = file.tensors();
  const auto of_target = std::ranges::find(all, "token_embd.weight", &gguf_builder::tensor::name);
  ASSERT_NE(of_target, all.end());
  const auto embedding = *of_target;
  const std::string name = "blk.4.nextn.embed_tokens.weight";
  file.add_tensor(name, embedding.type, embedding.shape, embedding.data);
  EXPECT_EQ(problem(file), "was accepted") << "a copy of the target's";
  file.remove_tensor(name).add_tensor(name, embedding.type, {embedding.shape[0], 1},
                                      std::vector<std::byte>(embedding.shape[0] * sizeof(float)));
  EXPECT_THAT(problem(file), HasSubstr("'" + name + "' must have the shape"));
}

TEST_F(mtp_gguf_test, refuses_what_does_not_fit) {
  for (const auto& file : {make_tiny_gguf({.arch = architecture::qwen35, .num_layers = 4}),
                           model_file().remove_tensor("blk.4.nextn.eh_proj.weight")})
    EXPECT_THAT(problem(file), HasSubstr("module.gguf: no tensor 'blk.*.nextn.eh_proj.weight': this file of "
                                         "architecture 'qwen35' has no module"));
  EXPECT_THAT(problem(make_tiny_gguf({})), HasSubstr("'llama'; draft heads are 'eagle3' and 'dflash'"));
  EXPECT_THAT(problem(model_file().remove("qwen35.nextn_predict_layers")), HasSubstr("nextn_predict_layers"));
  const auto with_modules = [](std::uint32_t count) {
    return model_file()
        .remove("qwen35.nextn_predict_layers")
        .set_uint32("qwen35.nextn_predict_layers", count);
  };
  EXPECT_THAT(problem(with_modules(2)), HasSubstr("nextn_predict_layers' is 2; heads have one module"));
  EXPECT_THAT(problem(with_modules(0)), HasSubstr("is 0; heads have one module"));
  EXPECT_THAT(problem(with_modules(9)), HasSubstr("nextn_predict_layers"));
  EXPECT_THAT(problem(module_alone().add_tensor("blk.4.nextn.extra.weight", device::tensor_type::f32, {1},
                                                std::vector<std::byte>(4))),
              HasSubstr("has no meaning"));
  auto wide =
      make_tiny_gguf({.arch = architecture::qwen35, .num_layers = 4, .hidden_size = 64, .mtp_module = true});
  EXPECT_THAT(problem(wide), HasSubstr("embedding_length' is 64, the target's hidden size is 32"));
  const std::string queries = "blk.4.attn_q.weight";
  EXPECT_THAT(problem(module_alone().remove_tensor(queries).add_tensor(
                  queries, device::tensor_type::f32, {32, 32}, std::vector<std::byte>(32 * 32 * 4))),
              HasSubstr("'" + queries + "' must have the shape [64][32], has [32][32]"));
  for (const std::uint32_t other : {272U, 320U}) {
    const auto file = make_tiny_gguf(
        {.arch = architecture::qwen35, .num_layers = 4, .vocab_size = other, .mtp_module = true});
    EXPECT_THAT(problem(file),
                HasSubstr("module.gguf: has " + std::to_string(other) + " tokens, the target has 288"));
  }
  for (const auto other : {architecture::qwen35moe, architecture::qwen3next})
    EXPECT_THAT(problem(make_tiny_gguf({.arch = other, .num_layers = 4, .mtp_module = true})),
                HasSubstr("'general.architecture' is '" + std::string(to_string(other)) +
                          "', the target's is 'qwen35'"));
  auto foreign = module_alone();
  foreign.remove("general.architecture").set_string("general.architecture", "glm4moe");
  EXPECT_THAT(problem(foreign),
              HasSubstr("'glm4moe'; modules for multi-token prediction are supported of qwen35"));
}

} // namespace
} // namespace paceline::test
