// Modules for multi-token prediction in directories: the names of tensors.
#include "runtime/model/heads/eagle_config.hpp"
#include "tests/support/head_test.hpp"

#include <gmock/gmock.h>

#include <string>

namespace paceline::test {
namespace {

using ::testing::HasSubstr;

class mtp_names_test : public head_test {};

TEST_F(mtp_names_test, tensors_may_be_named_within_a_model_with_other_parts) {
  for (const bool mixture : {false, true}) {
    const auto made = mixture ? tiny_head::mtp_experts(hidden, vocab) : tiny_head::mtp_next(hidden, vocab);
    const auto plain = load("mtp", made);
    ASSERT_TRUE(plain) << plain.error().message();
    for (const std::string prefix : {"model.", "language_model.", "model.language_model."}) {
      auto head = made;
      for (const auto& [name, one] : made.tensors) head.rename(name, prefix + name);
      const auto nested = load("mtp", head);
      ASSERT_TRUE(nested) << nested.error().message();
      EXPECT_EQ((*nested)->info().weights_bytes, (*plain)->info().weights_bytes);
      head.copy(prefix + "mtp.layers.1.input_layernorm.weight", prefix + "mtp.norm.weight");
      EXPECT_THAT(problem("mtp", head), HasSubstr("second module"));
      EXPECT_TRUE(model::is_of_module_experts(prefix + "mtp.layers.0.mlp.gate.weight"));
    }
  }
}

} // namespace
} // namespace paceline::test
