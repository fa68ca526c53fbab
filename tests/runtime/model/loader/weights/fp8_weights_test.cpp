#include "runtime/model/loader/weights/fp8_weights.hpp"

#include "runtime/device/stored_block.hpp"
#include "runtime/model/loader/hugging_face/hf_directory.hpp"
#include "runtime/model/loader/hugging_face/json_text.hpp"
#include "tests/support/all_tensors.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_hf_model.hpp"

#include <boost/json/object.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace paceline::model {
namespace {

using device::tensor_type;
using test::fp8_scales;
using test::write_text;
using testing::HasSubstr;

expected<std::optional<fp8_quantisation>> read(const std::string& section) {
  const auto object = parse_json_object(R"({"quantization_config":)" + section + "}", "config.json");
  if (!object) return object.error();
  return read_fp8_quantisation(*object, "config.json");
}

std::string refusal(const std::string& section) {
  const auto found = read(section);
  return found ? "was accepted" : found.error().message();
}

/// A group of compressed tensors with these members for its weights.
std::string group(const std::string& weights) { return R"({"weights":{)" + weights + "}}"; }
std::string compressed(const std::string& groups, const std::string& more = "") {
  return R"({"quant_method":"compressed-tensors",)" + more + R"("config_groups":{)" + groups + "}}";
}

TEST(fp8_quantisation, both_methods_say_which_blocks_share_a_scale) {
  const auto blocks = [](const std::string& section) {
    const auto found = read(section);
    EXPECT_TRUE(found) << found.error().message();
    return found && *found ? std::pair((*found)->block_rows, (*found)->block_cols)
                           : std::pair<std::uint64_t, std::uint64_t>{9, 9};
  };
  using pair = std::pair<std::uint64_t, std::uint64_t>;
  EXPECT_EQ(blocks(R"({"quant_method":"fp8"})"), pair(0, 0));
  EXPECT_EQ(blocks(R"({"quant_method":"fp8","fmt":"e4m3","weight_block_size":null})"), pair(0, 0));
  EXPECT_EQ(blocks(R"({"quant_method":"fp8","weight_block_size":[32,128]})"), pair(32, 128));
  const std::string eight = R"("type":"float","num_bits":8,)";
  EXPECT_EQ(blocks(compressed(R"("a":)" + group(eight + R"("strategy":"channel")"))), pair(0, 0));
  const auto of_blocks = group(eight + R"("strategy":"block","block_structure":[128,64])");
  EXPECT_EQ(blocks(compressed(R"("a":)" + of_blocks + R"(,"b":)" + of_blocks)), pair(128, 64));
  EXPECT_FALSE(read_fp8_quantisation({}, "config.json")->has_value());
  EXPECT_FALSE(read("null")->has_value());
}

TEST(fp8_quantisation, what_is_not_understood_is_refused_by_name) {
  const std::string eight = R"("type":"float","num_bits":8)";
  const std::pair<std::string, const char*> cases[] = {
      {"{}", "quantization_config: key 'quant_method' is ''"},
      {"3", "'quantization_config' must be an object"},
      {R"({"quant_method":"gptq","bits":4})", "is 'gptq'; supported are fp8 and compressed-tensors"},
      {R"({"quant_method":"fp8","fmt":"e5m2"})", "'fmt' is 'e5m2'"},
      {R"({"quant_method":"fp8","weight_block_size":[128]})", "must be two integers"},
      {R"({"quant_method":"fp8","weight_block_size":[128,0]})", "must be two integers"},
      {R"({"quant_method":"fp8","weight_block_size":[128,"128"]})", "must be two integers"},
      {R"({"quant_method":"fp8","weight_block_size":[128,32]})", "whole blocks of 64 columns"},
      {R"({"quant_method":"compressed-tensors"})", "'config_groups' is missing"},
      {compressed(""), "has no group"},
      {compressed(R"("a":{"targets":["Linear"]})"), "must hold groups with 'weights'"},
      {compressed(R"("a":)" + group(R"("type":"int","num_bits":4)")), "must be 'float' and 8"},
      {compressed(R"("a":)" + group(R"("type":"float","num_bits":4)")), "must be 'float' and 8"},
      {compressed(R"("a":)" + group(eight + R"(,"strategy":"group")")),
       "a: weights: key 'strategy' is 'group'"},
      {compressed(R"("a":)" + group(eight + R"(,"strategy":"block")")), "'block_structure' is missing"},
      {compressed(R"("a":)" + group(eight) + R"(,"b":)" +
                  group(eight + R"(,"strategy":"block","block_structure":[128,128])")),
       "must agree in their blocks"},
      {compressed(R"("a":)" + group(eight), R"("transform_config":{"config_groups":{"R1":{}}},)"),
       "'transform_config' is not supported"},
  };
  for (const auto& [section, message] : cases) EXPECT_THAT(refusal(section), HasSubstr(message)) << section;
}

/// A matrix of F8_E4M3 and scales of any shape.
struct matrix_with_scales {
  std::vector<std::byte> codes;
  std::vector<float> values;
  safetensors_tensor weight, scales;

  matrix_with_scales(std::uint64_t rows, std::uint64_t cols, std::vector<std::uint64_t> shape) {
    codes.resize(rows * cols);
    weight = {"w.weight", {rows, cols, 1, 1}, 2, tensor_type::f8_e4m3, 0, codes};
    std::uint64_t num_scales = 1;
    scales.name = "w.weight_scale";
    for (const auto extent : shape) {
      scales.shape[scales.num_dims++] = extent;
      num_scales *= extent;
    }
    for (std::uint64_t i = 0; i < num_scales; ++i) values.push_back(static_cast<float>(i) + 0.5F);
    scales.data = std::as_bytes(std::span(values));
  }
  expected<scale_grid> grid(const fp8_quantisation& quantisation = {}) const {
    return read_scale_grid(weight, scales, quantisation, "x");
  }
  std::string problem(const fp8_quantisation& quantisation = {}) const {
    const auto read = grid(quantisation);
    return read ? "was accepted" : read.error().message();
  }
};

TEST(scale_grid, one_scale_may_be_had_for_all_each_row_or_each_block) {
  for (const auto& shape : {std::vector<std::uint64_t>{}, {1}, {1, 1}}) {
    const auto one = matrix_with_scales(200, 192, shape).grid();
    ASSERT_TRUE(one) << one.error().message();
    EXPECT_EQ(one->at(0, 0), 0.5F);
    EXPECT_EQ(one->at(199, 191), 0.5F);
  }
  for (const auto& shape : {std::vector<std::uint64_t>{200}, {200, 1}}) {
    const auto rows = matrix_with_scales(200, 192, shape).grid();
    ASSERT_TRUE(rows) << rows.error().message();
    EXPECT_EQ(rows->at(0, 191), 0.5F);
    EXPECT_EQ(rows->at(199, 0), 199.5F);
  }
  const auto blocks = matrix_with_scales(200, 192, {2, 2}).grid({128, 128});
  ASSERT_TRUE(blocks) << blocks.error().message();
  const std::array corners{blocks->at(127, 127), blocks->at(127, 128), blocks->at(128, 127),
                           blocks->at(199, 191)};
  EXPECT_THAT(corners, testing::ElementsAre(0.5F, 1.5F, 2.5F, 3.5F));
}

TEST(scale_grid, shapes_that_do_not_fit_are_refused_with_both_names) {
  EXPECT_THAT(
      matrix_with_scales(200, 192, {199}).problem(),
      HasSubstr("x: tensor 'w.weight_scale' must have one scale, or one for each row, of [200,192], has the "
                "shape [199]"));
  EXPECT_THAT(matrix_with_scales(200, 192, {1, 200}).problem(), HasSubstr("has the shape [1,200]"));
  EXPECT_THAT(matrix_with_scales(200, 192, {200, 1, 2}).problem(), HasSubstr("has the shape [200,1,2]"));
  EXPECT_THAT(matrix_with_scales(200, 192, {2, 1}).problem({128, 128}),
              HasSubstr("a scale for each 128 rows and 128 columns of [200,192], has the shape [2,1]"));
  EXPECT_THAT(matrix_with_scales(200, 192, {}).problem({128, 128}), HasSubstr("has the shape []"));
  EXPECT_THAT(
      matrix_with_scales(200, 160, {}).problem(),
      HasSubstr("tensor 'w.weight' of F8_E4M3 must have rows of whole blocks of 64 values, has rows of 160"));
  matrix_with_scales vector(1, 64, {});
  vector.weight.num_dims = 1;
  EXPECT_THAT(vector.problem(), HasSubstr("must have 2 dimensions"));
}

TEST(scale_grid, scales_are_finite_numbers_of_16_bits_or_more) {
  matrix_with_scales matrix(3, 64, {3});
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf(""), 0x1p100F, -0x1p127F}) {
    matrix.values[1] = bad;
    EXPECT_THAT(matrix.problem(), HasSubstr("must hold finite scales below 2^100")) << bad;
  }
  matrix.values[1] = -0x1.fp99F;
  EXPECT_EQ(matrix.problem(), "was accepted");
  matrix.scales.type = tensor_type::f8_e4m3;
  EXPECT_THAT(matrix.problem(), HasSubstr("must be F32, F16 or BF16"));
  const std::vector<std::uint16_t> brief{0x3f80, 0x4000, 0xbe00}; // bfloat16
  matrix.scales.type = tensor_type::bf16;
  matrix.scales.data = std::as_bytes(std::span(brief));
  EXPECT_THAT(matrix.grid()->values, testing::ElementsAre(1, 2, -0.125F));
}

TEST(f8_blocks, a_code_that_is_no_number_makes_its_block_one) {
  matrix_with_scales matrix(2, 192, {2});
  matrix.codes[192 + 64 + 5] = std::byte{0xff};
  matrix.codes[192 + 128 + 9] = std::byte{0x7e};
  const auto grid = *matrix.grid();
  const weight_view view{"w", {tensor_type::f8_e4m3, 2, 192, matrix.codes}, &grid};
  const auto blocks = f8_blocks(view);
  ASSERT_EQ(blocks.size(), view.stored_bytes());
  std::vector<float> values(2 * 192);
  device::dequantize(tensor_type::f8_e4m3, blocks, values);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(std::isnan(values[i]), i / 64 == 4) << i;
  EXPECT_EQ(values[192 + 128 + 9], 448 * 1.5F);
}

class fp8_directories : public testing::TestWithParam<fp8_scales> {
 protected:
  static constexpr test::tiny_model options{
      .arch = architecture::qwen3, .hidden_size = 192, .head_dim = 64, .ffn_size = 320, .vocab_size = 272};

  expected<weights_source> weights() const {
    const auto opened = hf_directory::open(directory_);
    if (!opened) return opened.error();
    return read_hf_weights(*opened);
  }
  std::string problem() const {
    const auto read = weights();
    return read ? "was accepted" : read.error().message();
  }
  /// The directory's config with another quantization_config.
  void write_config(const std::string& section) const {
    std::string text = test::tiny_hf_config(options);
    write_text(directory_ / "config.json", text.insert(1, R"("quantization_config":)" + section + ","));
  }

  test::scratch_folder folder_;
  std::filesystem::path directory_ = folder_ / "model";
};

std::vector<float> values_of(const weight_view& view) {
  std::vector<float> out(view.tensor.num_rows * view.tensor.num_cols);
  if (view.scales)
    device::dequantize(view.tensor.type, f8_blocks(view), out);
  else
    device::dequantize(view.tensor.type, view.tensor.bytes, out);
  return out;
}

TEST_P(fp8_directories, hold_the_values_that_their_codes_and_scales_stand_for) {
  for (const std::size_t num_shards : {1U, 3U}) {
    test::write_tiny_hf(options, directory_, num_shards, {GetParam()});
    const auto stored = weights();
    ASSERT_TRUE(stored) << stored.error().message();
    EXPECT_TRUE(stored->at(tensor_role::q, 1).scales);
    EXPECT_FALSE(stored->at(tensor_role::token_embedding).scales);
    std::filesystem::remove_all(directory_);
    test::write_tiny_hf(options, directory_, 1, {GetParam(), true});
    const auto expected = weights();
    ASSERT_TRUE(expected) << expected.error().message();
    const auto ours = test::all_tensors(*stored), theirs = test::all_tensors(*expected);
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const auto& [role, view] = ours[i];
      ASSERT_TRUE(stored->read(view.tensor.bytes));
      ASSERT_TRUE(expected->read(theirs[i].second.tensor.bytes));
      EXPECT_EQ(values_of(view), values_of(theirs[i].second)) << role;
    }
    std::filesystem::remove_all(directory_);
  }
}

TEST_P(fp8_directories, need_what_says_how_they_are_scaled) {
  test::write_tiny_hf(options, directory_, 1, {GetParam()});
  write_text(directory_ / "config.json", test::tiny_hf_config(options));
  EXPECT_THAT(problem(),
              HasSubstr("q_proj.weight' is F8_E4M3 and needs a quantization_config in config.json"));
  write_config(R"({"quant_method":"awq"})");
  EXPECT_THAT(problem(), HasSubstr("is 'awq'"));
  write_config(GetParam() == fp8_scales::blocks ? R"({"quant_method":"fp8"})"
                                                : R"({"quant_method":"fp8","weight_block_size":[128,128]})");
  EXPECT_THAT(problem(), HasSubstr("proj.weight_scale")) << "scales of another kind";
}

/// A directory with one tensor more or less.
void write_changed(const std::filesystem::path& directory, std::string_view left_out,
                   std::string_view added) {
  const auto file = *safetensors_file::open(directory / "model.safetensors");
  ASSERT_TRUE(file.from()->read(file.from()->bytes()));
  test::safetensors_builder builder;
  for (const auto& tensor : file.tensors())
    if (tensor.name != left_out)
      builder.add(tensor.name, device::traits_of(tensor.type)->name,
                  {tensor.shape.begin(), tensor.shape.begin() + tensor.num_dims},
                  {tensor.data.begin(), tensor.data.end()});
  // The scale of activations is a scalar.
  const bool is_scalar = added.ends_with("activation_scale");
  if (!added.empty())
    builder.add(added, "F32", std::vector<std::uint64_t>(is_scalar ? 0 : 1, 1), std::vector<std::byte>(4));
  test::write_bytes(directory / "model.safetensors", builder.build());
}

TEST_P(fp8_directories, scales_that_are_missing_or_belong_to_nothing_are_named) {
  const std::string layer = "model.layers.1.self_attn.";
  const std::string scales =
      layer + "k_proj.weight" + (GetParam() == fp8_scales::blocks ? "_scale_inv" : "_scale");
  test::write_tiny_hf(options, directory_, 1, {GetParam()});
  write_changed(directory_, scales, "");
  EXPECT_THAT(problem(), HasSubstr("'" + layer + "k_proj.weight' is F8_E4M3 and needs '" + layer +
                                   "k_proj.weight_scale'"));
  test::write_tiny_hf(options, directory_, 1, {GetParam()});
  write_changed(directory_, "", "model.norm.weight_scale");
  EXPECT_THAT(problem(), HasSubstr("'model.norm.weight_scale' has no meaning"));
}

TEST_P(fp8_directories, scales_of_activations_and_cells_are_not_used) {
  const test::tiny_model plain{};
  for (const auto* name :
       {"model.layers.0.self_attn.q_proj.input_scale", "model.layers.0.self_attn.q_proj.activation_scale",
        "model.layers.0.mlp.experts.gate_up_proj_activation_scale", "model.layers.1.self_attn.v_scale"}) {
    test::write_tiny_hf(options, directory_, 1, {GetParam()});
    write_changed(directory_, "", name);
    EXPECT_EQ(problem(), "was accepted") << name;
    test::write_tiny_hf(plain, directory_);
    write_changed(directory_, "", name);
    const bool is_scalar = std::string_view(name).ends_with("activation_scale");
    EXPECT_THAT(problem(), HasSubstr(is_scalar ? "must have 1 to 3 dimensions, has 0" : "has no meaning"))
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(scales, fp8_directories,
                         testing::Values(fp8_scales::blocks, fp8_scales::rows, fp8_scales::one),
                         [](const auto& test) {
                           return test.param == fp8_scales::blocks ? "blocks"
                                  : test.param == fp8_scales::rows ? "rows"
                                                                   : "one";
                         });

} // namespace
} // namespace paceline::model
