#include "runtime/model/loader/gguf/gguf_keys.hpp"

#include "tests/support/opened_gguf.hpp"
#include "tests/support/tiny_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::model {
namespace {

using test::gguf_builder;
using test::make_tiny_gguf;
using test::open;
using test::problem;
using testing::HasSubstr;

gguf_builder tiny(architecture arch = architecture::llama) { return make_tiny_gguf({.arch = arch}); }

const char* const keys_per_layer[] = {"llama.attention.head_count", "llama.attention.head_count_kv",
                                      "llama.feed_forward_length"};

TEST(gguf_keys, numbers_for_each_layer_that_are_equal_load_as_one_does) {
  const auto one = open(tiny());
  auto lists = tiny();
  lists.set_int32s(keys_per_layer[0], std::vector<std::int32_t>{4, 4});
  lists.set_int32s(keys_per_layer[1], std::vector<std::int32_t>{2, 2});
  lists.set_int32s(keys_per_layer[2], std::vector<std::int32_t>{64, 64});
  const auto config = open(lists);
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->num_heads, one->num_heads);
  EXPECT_EQ(config->num_kv_heads, one->num_kv_heads);
  EXPECT_EQ(config->ffn_size, one->ffn_size);
}

TEST(gguf_keys, numbers_that_differ_between_layers_are_refused_with_both) {
  for (const char* key : keys_per_layer) {
    auto file = make_tiny_gguf({.num_layers = 4}).set_int32s(key, std::vector<std::int32_t>{4, 4, 0, 2});
    EXPECT_EQ(problem(file).code(), errc::unsupported);
    EXPECT_THAT(problem(file).message(),
                HasSubstr("'" + std::string(key) +
                          "' is 4 for layer 0 and 0 for layer 2: this needs sizes of each layer, and layers "
                          "of architecture llama have the same"));
  }
}

TEST(gguf_keys, wrong_numbers_for_each_layer_are_named) {
  const auto refused = [](const char* key, const std::vector<std::int32_t>& list) {
    auto file = tiny().set_int32s(key, list);
    EXPECT_EQ(problem(file).code(), errc::invalid_file);
    return problem(file).message();
  };
  for (const char* key : keys_per_layer) {
    EXPECT_THAT(refused(key, {4}), HasSubstr("must have one element for each of the 2 layers, has 1"));
    EXPECT_THAT(refused(key, {4, 4, 4}), HasSubstr("must have one element for each of the 2 layers, has 3"));
    EXPECT_THAT(refused(key, {}), HasSubstr("must have one element for each of the 2 layers, has 0"));
    EXPECT_THAT(refused(key, {4, -4}), HasSubstr("must be 0 to 4294967295, is -4 for layer 1"));
    EXPECT_THAT(refused(key, {-4, -4}), HasSubstr("must be 0 to 4294967295, is -4 for layer 0"));
    const std::string rule = "must be an integer, or an array of one for each layer, is ";
    EXPECT_THAT(problem(tiny().set_float32s(key, std::vector<float>{4, 4})).message(),
                HasSubstr(rule + "an array of float32"));
    EXPECT_THAT(problem(tiny().set_strings(key, std::vector<std::string>{"4", "4"})).message(),
                HasSubstr(rule + "an array of string"));
    EXPECT_THAT(problem(tiny().set_bool(key, true)).message(), HasSubstr(rule + "bool"));
  }
  auto many = tiny().set_uint32("llama.block_count", 1U << 31);
  EXPECT_THAT(problem(many).message(), HasSubstr("'llama.block_count' is more than the file has tensors"));
  EXPECT_THAT(problem(tiny().set_uint32("llama.block_count", 0)).message(),
              HasSubstr("'llama.block_count' must be at least 1"));
}

TEST(gguf_keys, wrong_flags_for_each_layer_are_named) {
  const auto refused = [](const std::vector<std::int32_t>& flags) {
    return problem(tiny(architecture::gemma3).set_int32s("gemma3.attention.sliding_window_pattern", flags))
        .message();
  };
  EXPECT_THAT(refused({1}), HasSubstr("must have one element for each of the 2 layers, has 1"));
  EXPECT_THAT(refused({1, 2}), HasSubstr("must be 0 to 1, is 2 for layer 1"));
  EXPECT_THAT(refused({1, -1}), HasSubstr("must be 0 to 1, is -1 for layer 1"));
  EXPECT_THAT(problem(tiny(architecture::gemma3)
                          .set_float32s("gemma3.attention.sliding_window_pattern", std::vector<float>{1, 0}))
                  .message(),
              HasSubstr("must be an array of one flag for each layer, is an array of float32"));
}

TEST(gguf_keys, numbers_for_each_layer_come_from_one_or_from_a_list) {
  const auto bytes = tiny()
                         .set_uint64("x.one", 7)
                         .set_int32s("x.list", std::vector<std::int32_t>{3, 0, 5})
                         .set_int32s("x.flags", std::vector<std::int32_t>{1, 0, 1})
                         .build();
  const auto file = gguf_file::parse(bytes, "x.gguf");
  ASSERT_TRUE(file) << file.error().message();
  gguf_keys keys(file->metadata(), "x");
  EXPECT_THAT(keys.per_layer("one", 3), testing::ElementsAre(7, 7, 7));
  EXPECT_THAT(keys.per_layer("list", 3), testing::ElementsAre(3, 0, 5));
  EXPECT_THAT(keys.layer_flags("flags", 3), testing::ElementsAre(true, false, true));
  EXPECT_THAT(keys.layer_flags("absent", 3), testing::IsEmpty());
  EXPECT_FALSE(keys.failure());
  EXPECT_THAT(keys.per_layer("absent", 3), testing::IsEmpty());
  ASSERT_TRUE(keys.failure());
  EXPECT_THAT(keys.failure()->message(), HasSubstr("'x.absent' is missing"));
}

} // namespace
} // namespace paceline::model
