// Modules for multi-token prediction in GGUF files of their model, or in files with nothing else of it: which
// files have one, and what is wrong with those that do not fit. tests/e2e/head_parity.py compares their
// drafts.
#include "runtime/model/heads/head_kind.hpp"
#include "runtime/model/heads/head_loader.hpp"
#include "runtime/model/heads/head_report.hpp"
#include "tests/support/cpu_model.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace paceline::test {
namespace {

using model::architecture;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class gguf_module_test : public ::testing::Test {
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

  gguf_module_test() {
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

  scratch_folder folder_;
  std::optional<cpu_model> target_;
};

TEST_F(gguf_module_test, is_found_in_the_file_of_its_model_and_alone) {
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

TEST_F(gguf_module_test, refuses_what_does_not_fit) {
  EXPECT_THAT(problem(make_tiny_gguf({.arch = architecture::qwen35, .num_layers = 4})), HasSubstr("qwen35"));
  EXPECT_THAT(problem(model_file().remove("qwen35.nextn_predict_layers")), HasSubstr("nextn_predict_layers"));
  const auto with_modules = [](std::uint32_t count) {
    return model_file()
        .remove("qwen35.nextn_predict_layers")
        .set_uint32("qwen35.nextn_predict_layers", count);
  };
  EXPECT_THAT(problem(with_modules(2)), HasSubstr("nextn_predict_layers' is 2; heads have one module"));
  EXPECT_THAT(problem(with_modules(0)), HasSubstr("is 0; heads have one module"));
  EXPECT_THAT(problem(with_modules(9)), HasSubstr("nextn_predict_layers"));
  EXPECT_THAT(problem(module_alone().remove_tensor("blk.4.nextn.hnorm.weight")),
              HasSubstr("layers.0.hidden_norm.weight' is missing"));
  EXPECT_THAT(problem(module_alone().remove_tensor("blk.4.attn_q_norm.weight")), HasSubstr("is missing"));
  EXPECT_THAT(problem(module_alone().remove_tensor("blk.4.attn_k.weight")), HasSubstr("is missing"));
  EXPECT_THAT(problem(module_alone().add_tensor("blk.4.nextn.extra.weight", device::tensor_type::f32, {1},
                                                std::vector<std::byte>(4))),
              HasSubstr("has no meaning"));
  auto wide =
      make_tiny_gguf({.arch = architecture::qwen35, .num_layers = 4, .hidden_size = 64, .mtp_module = true});
  EXPECT_THAT(problem(wide), HasSubstr("embedding_length' is 64, the target's hidden size is 32"));
  auto foreign = module_alone();
  foreign.remove("general.architecture").set_string("general.architecture", "glm4moe");
  EXPECT_THAT(problem(foreign),
              HasSubstr("'glm4moe'; modules for multi-token prediction are supported of qwen35"));
}

} // namespace
} // namespace paceline::test
