#include "runtime/model/loader/report/model_report.hpp"

#include "runtime/model/loader/hugging_face/json_text.hpp"
#include "runtime/model/loader/report/report_text.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_hf_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace paceline::model {
namespace {

using testing::HasSubstr;

class model_reports : public testing::Test {
 protected:
  test::scratch_folder folder_;
  std::filesystem::path path_ = folder_ / "model";
};

TEST_F(model_reports, a_gguf_file_is_reported_whole) {
  test::make_tiny_gguf({}).write(path_);
  const auto report = inspect_model(path_, {.context_length = 10, .num_sequences = 3});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->format, "GGUF v3");
  EXPECT_EQ(report->problem, "");
  EXPECT_EQ(report->file_bytes, std::filesystem::file_size(path_));
  EXPECT_EQ(report->tensors.front().name, "token_embd.weight");
  EXPECT_THAT(report->tensors.front().shape, testing::ElementsAre(288, 32));
  ASSERT_TRUE(report->memory);
  // 2 layers x 2 heads of 8 values x keys and values x 2 bytes.
  EXPECT_EQ(report->memory->kv_bytes_per_token, 2U * 2 * 8 * 2 * 2);
  EXPECT_EQ(report->memory->kv_bytes, 128U * 10 * 3);
  EXPECT_EQ(report->memory->total_bytes, report->memory->kv_bytes + report->memory->weights_bytes);
  const auto text = to_text(*report);
  EXPECT_THAT(text, HasSubstr("tokenizer.ggml.tokens"));
  EXPECT_THAT(text, HasSubstr(", ...] (288 of string)"));
  EXPECT_THAT(text, HasSubstr("KV a token (f16)  128 bytes"));
  EXPECT_LT(text.size(), 8000U);
}

TEST_F(model_reports, the_memory_estimate_is_of_the_kv_type_asked_for) {
  test::make_tiny_gguf({}).write(path_);
  const auto report = inspect_model(path_, {.context_length = 10, .kv_type = kv_type::q8});
  ASSERT_TRUE(report) << report.error().message();
  // 2 layers x 2 heads x keys and values x (8 codes and a scale of 4 bytes).
  EXPECT_EQ(report->memory->kv_bytes_per_token, 2U * 2 * 2 * (8 + 4));
  EXPECT_EQ(report->memory->kv_bytes, 96U * 10);
  EXPECT_THAT(to_text(*report), HasSubstr("KV a token (q8)   96 bytes"));
  EXPECT_THAT(to_json(*report), HasSubstr(R"("kv_dtype":"q8","kv_bytes_per_token":96)"));
}

TEST_F(model_reports, the_json_is_valid_and_complete) {
  auto builder = test::make_tiny_gguf({});
  builder.set_string("general.name", "line\nbreak \xff \"quoted\" \x01").set_float32("inf", INFINITY);
  builder.write(path_);
  const auto report = inspect_model(path_);
  ASSERT_TRUE(report);
  const auto json = to_json(*report);
  const auto object = parse_json_object(json, "report");
  ASSERT_TRUE(object) << object.error().message();
  for (const auto* key : {"path", "format", "num_files", "file_bytes", "num_parameters", "config", "memory",
                          "problem", "metadata", "tensors"})
    EXPECT_TRUE(object->contains(key)) << key;
  EXPECT_THAT(json, HasSubstr(R"(line\nbreak )"
                              "\xef\xbf\xbd"
                              R"( \"quoted\" \u0001)"));
  EXPECT_THAT(json, HasSubstr(R"("count":288,"values":[)"));
}

TEST_F(model_reports, a_model_that_cannot_run_is_reported_with_the_reason) {
  test::make_tiny_gguf({}).set_string("general.architecture", "mamba").write(path_);
  const auto report = inspect_model(path_);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_THAT(report->problem, HasSubstr("'mamba'"));
  EXPECT_FALSE(report->config);
  EXPECT_FALSE(report->memory);
  EXPECT_THAT(to_text(*report), HasSubstr("cannot run: "));
  EXPECT_THAT(to_json(*report), HasSubstr(R"("memory":null)"));
}

TEST_F(model_reports, a_mixture_tells_how_many_experts_a_pass_reads) {
  test::make_tiny_gguf({.arch = architecture::qwen3moe, .num_experts = 128, .num_used_experts = 8})
      .write(path_);
  const auto report = inspect_model(path_);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_THAT(to_text(*report), HasSubstr("128 in each of 1 layers; a row uses 8\n"));
  EXPECT_THAT(to_text(*report),
              HasSubstr("experts that it reads  8.0    15.5   22.5   29.1   35.3   51.6   82.4   "));
  EXPECT_THAT(to_json(*report), HasSubstr(R"("expected_by_rows":{"1":8.0,"2":15.5)"));
  test::make_tiny_gguf({}).write(path_);
  EXPECT_THAT(to_json(*inspect_model(path_)), HasSubstr(R"("experts":null)"));
}

TEST_F(model_reports, a_hugging_face_directory_is_reported) {
  test::write_tiny_hf({}, path_, 2);
  const auto report = inspect_model(path_);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->format, "safetensors");
  EXPECT_EQ(report->num_files, 2U);
  ASSERT_TRUE(report->memory);
  EXPECT_THAT(to_text(*report), HasSubstr("num_hidden_layers"));
}

TEST(memory_estimate, sums_saturate) {
  model_config config;
  config.num_layers = 4096;
  config.num_kv_heads = 4096;
  config.head_dim = 4096;
  const auto most = std::numeric_limits<std::uint32_t>::max();
  const auto estimate = estimate_memory(config, 1, {.context_length = most, .num_sequences = most});
  EXPECT_EQ(estimate.kv_bytes, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(estimate.total_bytes, std::numeric_limits<std::uint64_t>::max());
}

TEST(report_text, text_becomes_valid_utf8) {
  EXPECT_EQ(utf8_text("a\xc3\xa9\xf0\x9f\x98\x80"), "a\xc3\xa9\xf0\x9f\x98\x80");
  for (const auto* bad : {"\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\xff"})
    EXPECT_THAT(utf8_text(bad), HasSubstr("\xef\xbf\xbd")) << bad;
  EXPECT_EQ(shortened("a\xc3\xa9z", 2), "a...");
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(json_number(0.1F), "0.1");
}

} // namespace
} // namespace paceline::model
