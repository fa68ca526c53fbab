// A module for multi-token prediction whose matrices are in FP8 computes what their values say.
#include "tests/support/head_test.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace paceline::mtp_fp8_test {
namespace {

using ::testing::HasSubstr;

class mtp_fp8 : public test::head_test, public ::testing::WithParamInterface<test::fp8_scales> {
 protected:
  static constexpr std::uint32_t wide = 64; ///< values of a block

  mtp_fp8() { set_target(model::architecture::qwen35moe, wide); }

  static test::tiny_head module(bool has_experts) {
    return has_experts ? test::tiny_head::mtp_experts(wide, vocab) : test::tiny_head::mtp_next(wide, vocab);
  }

  /// Logits of one row, whose only earlier position is its own.
  std::vector<float> logits_of(const model::draft_head& head) {
    const auto target_kv = target_->get().make_kv_storage(1, 4, head.taps());
    test::make_up(*target_kv->features());
    const auto kv = head.make_kv_storage(1, 4);
    test::paged_sequences paged(4, 1, 1);
    paged.add_sequence(1);
    auto rows = paged.chain_rows(0, 0, 1);
    rows[0].token = token_id{9};
    const std::vector<std::uint32_t> first{0};
    std::vector<float> logits(head.info().vocab_size);
    target_->run([&](device::ops& ops) {
      head.forward(ops, paged.batch(rows), {target_kv->features(), first, first}, kv.get(), {first, logits});
    });
    return logits;
  }
};

TEST_P(mtp_fp8, computes_what_its_values_say) {
  for (const bool has_experts : {false, true}) {
    auto stored = module(has_experts), decoded = module(has_experts);
    stored.round_to_fp8(GetParam(), false);
    decoded.round_to_fp8(GetParam(), true);
    const auto expected = load("mtp", decoded);
    ASSERT_TRUE(expected) << expected.error().message();
    const auto logits = logits_of(**expected);
    const auto loaded = load("mtp", stored);
    ASSERT_TRUE(loaded) << loaded.error().message();
    EXPECT_EQ(logits_of(**loaded), logits) << has_experts;
    EXPECT_LT((*loaded)->info().weights_bytes, (*expected)->info().weights_bytes);
    EXPECT_NE(logits_of(**load("mtp", module(has_experts))), logits) << "rounding changes the values";
  }
}

TEST_P(mtp_fp8, refuses_codes_without_scales_and_without_their_description) {
  const std::string name = "mtp.layers.0.self_attn.k_proj.weight";
  auto head = module(false);
  head.round_to_fp8(GetParam(), false);
  auto without = head;
  without.config.erase("quantization_config");
  EXPECT_THAT(problem("mtp", without),
              HasSubstr("is F8_E4M3 and needs a quantization_config in config.json"));
  for (const char* const suffix : {"_scale", "_scale_inv"}) head.tensors.erase(name + suffix);
  EXPECT_THAT(problem("mtp", head), HasSubstr("'" + name + "' is F8_E4M3 and needs '" + name + "_scale'"));
}

TEST_P(mtp_fp8, refuses_scales_that_do_not_fit) {
  auto head = module(true);
  head.round_to_fp8(GetParam(), false);
  for (auto& [name, one] : head.tensors)
    if (name.find("experts.3.up_proj.weight_scale") != std::string::npos)
      one = {{3, 3}, std::vector<float>(9)};
  EXPECT_THAT(problem("mtp", head), HasSubstr("experts.3.up_proj.weight_scale"));
}

TEST_P(mtp_fp8, a_router_may_not_be_in_fp8) {
  auto head = module(true);
  head.round_to_fp8(GetParam(), false);
  const std::string router = "mtp.layers.0.mlp.gate.weight";
  auto& gate = head.tensors.at(router);
  const auto codes = test::quantise_fp8(gate.values, gate.shape[0], gate.shape[1], test::fp8_scales::one);
  gate.codes = codes.codes;
  head.config["quantization_config"] = {{"quant_method", "fp8"}};
  for (auto& [name, one] : head.tensors)
    if (name.find("_scale") != std::string::npos) one = {{}, {1.0F}};
  head.tensors[router + "_scale"] = {{}, {1.0F}};
  EXPECT_THAT(problem("mtp", head), HasSubstr("'" + router + "' must be F32, F16 or BF16"));
}

INSTANTIATE_TEST_SUITE_P(scales, mtp_fp8,
                         ::testing::Values(test::fp8_scales::blocks, test::fp8_scales::rows,
                                           test::fp8_scales::one),
                         [](const auto& test) {
                           return test.param == test::fp8_scales::blocks ? "blocks"
                                  : test.param == test::fp8_scales::rows ? "rows"
                                                                         : "one";
                         });

} // namespace
} // namespace paceline::mtp_fp8_test
