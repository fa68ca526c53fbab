// What `paceline inspect` shows of a draft head.
#include "runtime/model/heads/files/head_report.hpp"

#include "runtime/model/loader/hugging_face/json_text.hpp"
#include "tests/support/head_test.hpp"

#include <boost/json/value.hpp>
#include <gmock/gmock.h>

namespace paceline::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class head_report_test : public head_test {
 protected:
  model::model_report report_of(const tiny_head& head) {
    head.write(folder_.path());
    auto report = model::inspect_head(folder_.path());
    if (!report) throw std::runtime_error(report.error().message());
    return *std::move(report);
  }
  /// A fact's value as JSON; empty if there is none.
  static std::string fact(const model::model_report& report, std::string_view name) {
    for (const auto& one : report.head.facts)
      if (one.name == name) return one.value;
    return "";
  }
  static std::string type_of(const model::model_report& report, std::string_view name) {
    for (const auto& one : report.tensors)
      if (one.name == name) return one.type;
    return "";
  }
};

TEST_F(head_report_test, tells_kind_fields_layers_and_vocabulary_without_a_target) {
  auto head = tiny_head::eagle3(hidden, hidden, vocab, 100);
  head.config["eagle_aux_hidden_state_layer_ids"] = {2, 4, 7};
  head.config["norm_before_residual"] = true;
  const auto report = report_of(head);
  EXPECT_EQ(report.head.kind, "eagle3");
  EXPECT_EQ(report.problem, "");
  EXPECT_EQ(fact(report, "layers"), "1");
  EXPECT_EQ(fact(report, "taps"), "[1, 3, 6]");
  EXPECT_EQ(fact(report, "norm_before_residual"), "true");
  EXPECT_EQ(fact(report, "norm_output"), "false");
  EXPECT_EQ(fact(report, "draft_vocab_size"), "100");
  EXPECT_EQ(fact(report, "own_embedding"), "false");
  EXPECT_EQ(fact(report, "vocabulary_map"), "\"d2t: offsets\"");
  EXPECT_EQ(fact(report, "vocabulary_map_tokens"), "100");
  EXPECT_EQ(type_of(report, "d2t"), "I64") << "the real type";
  EXPECT_EQ(type_of(report, "fc.weight"), "F32");
  EXPECT_THAT(to_text(report), HasSubstr("draft head\n  kind "));
  const auto json = model::parse_json_object(to_json(report), "report");
  ASSERT_TRUE(json) << json.error().message();
  EXPECT_EQ(json->at("head").at("kind").as_string(), "eagle3");
  EXPECT_EQ(json->at("head").at("taps").as_array().size(), 3U);
}

TEST_F(head_report_test, tells_levels_of_other_families) {
  auto report = report_of(tiny_head::medusa_vllm(hidden, vocab));
  EXPECT_EQ(fact(report, "layout") + fact(report, "levels"), "\"vLLM\"2");
  EXPECT_THAT(fact(report, "vocabulary_map"), HasSubstr("none"));
  report = report_of(tiny_head::medusa(hidden, vocab));
  EXPECT_EQ(fact(report, "layout") + fact(report, "levels"), "\"FasterDecoding\"2");
  report = report_of(tiny_head::hydra_prefix(hidden, vocab, ffn));
  EXPECT_EQ(fact(report, "architecture") + fact(report, "levels"), "\"prefix-mlp\"2");
  report = report_of(tiny_head::hydra(hidden, vocab));
  EXPECT_EQ(fact(report, "architecture") + fact(report, "levels"), "\"mlp\"2");
  report = report_of(tiny_head::mlp_speculator(hidden, vocab));
  EXPECT_EQ(fact(report, "inner_size") + fact(report, "own_embedding"), "48true");
  report = report_of(tiny_head::mtp_next(hidden, vocab));
  EXPECT_EQ(report.head.kind, "mtp");
  EXPECT_EQ(fact(report, "layers"), "1");
}

TEST_F(head_report_test, tells_block_and_markov_head_by_fields_and_tensors) {
  auto report = report_of(tiny_head::dflash(hidden, vocab));
  EXPECT_EQ(report.problem, "");
  EXPECT_EQ(fact(report, "layers") + fact(report, "block_size") + fact(report, "levels"), "243");
  EXPECT_EQ(fact(report, "alignment") + fact(report, "markov_head"), "\"same\"");
  EXPECT_THAT(fact(report, "taps"), HasSubstr("depend on the target"));
  auto head = tiny_head::dspark(hidden, vocab, "gated");
  auto& nested = head.config["dflash_config"].as_object();
  nested.erase("markov_rank"), nested.erase("enable_confidence_head");
  const auto markov_head = [&] {
    report = report_of(head);
    return fact(report, "markov_head") + fact(report, "markov_rank") + fact(report, "confidence_head");
  };
  EXPECT_EQ(markov_head(), "\"gated\"8true");
  EXPECT_EQ(fact(report, "alignment") + fact(report, "own_embedding"), "\"next\"false");
  for (const auto& [name, one] : tiny_head::dspark(hidden, vocab, "gated").tensors) // Model-Optimizer's names
    if (name.starts_with("markov_head."))
      head.rename(name, name.substr(12));
    else if (name.starts_with("confidence_head.proj."))
      head.rename(name, "confidence_proj." + name.substr(21));
  EXPECT_EQ(markov_head(), "\"gated\"8true");
}

TEST_F(head_report_test, tells_whether_a_head_fits_a_target) {
  auto head = tiny_head::eagle3(hidden, hidden, vocab, 100);
  auto report = report_of(head);
  EXPECT_THAT(fact(report, "taps"), HasSubstr("depend on the target"));
  add_fit(report, "tiny.gguf", load("eagle3", folder_.path()));
  EXPECT_EQ(fact(report, "fits"), "true");
  EXPECT_EQ(fact(report, "target"), "\"tiny.gguf\"");
  EXPECT_EQ(fact(report, "taps_of_target"), "[1, 3, 4]");
  EXPECT_EQ(fact(report, "drafted_tokens"), "100");
  EXPECT_EQ(report.problem, "");
  head.config["vocab_size"] = 300;
  report = report_of(head);
  add_fit(report, "tiny.gguf", load("eagle3", folder_.path()));
  EXPECT_EQ(fact(report, "fits"), "false");
  EXPECT_THAT(report.problem, HasSubstr("'vocab_size' is 300, the target's is 288"));
}

TEST_F(head_report_test, a_config_that_cannot_be_read_is_the_problem) {
  auto head = tiny_head::eagle3(hidden, hidden, vocab, 100);
  head.config.erase("intermediate_size");
  EXPECT_THAT(report_of(head).problem, HasSubstr("'intermediate_size'"));
  make_tiny_gguf({}).write(folder_ / "model.gguf");
  const auto model = model::inspect_head(folder_ / "model.gguf");
  EXPECT_FALSE(model);
}

} // namespace
} // namespace paceline::test
