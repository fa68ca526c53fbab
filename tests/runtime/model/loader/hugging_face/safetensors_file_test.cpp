#include "runtime/model/loader/hugging_face/safetensors_file.hpp"

#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_hf_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

namespace paceline::model {
namespace {

using device::tensor_type;
using test::safetensors_builder;
using testing::HasSubstr;

std::vector<std::byte> bytes(std::size_t count) { return std::vector<std::byte>(count); }

std::string problem(const std::vector<std::byte>& file) {
  const auto parsed = safetensors_file::parse(file, "x.safetensors");
  return parsed ? "was accepted" : parsed.error().message();
}

/// The error for a file with this header and this number of data bytes.
std::string problem(std::string_view header, std::size_t num_bytes) {
  return problem(safetensors_builder::build_raw(header, bytes(num_bytes)));
}

TEST(safetensors_file, tensors_have_their_shape_type_and_bytes) {
  safetensors_builder builder;
  builder.prologue = R"("__metadata__":{"format":"pt"},)";
  builder.add("a", "F32", {2, 3}, bytes(24)).add("b", "BF16", {4}, bytes(8)).add("c", "F16", {}, bytes(2));
  const auto data = builder.build();
  const auto file = safetensors_file::parse(data, "x");
  ASSERT_TRUE(file) << file.error().message();
  ASSERT_EQ(file->tensors().size(), 3U);
  const auto& a = file->tensors()[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.num_dims, 2U);
  EXPECT_THAT(a.shape, testing::ElementsAre(2, 3, 1, 1, 1));
  EXPECT_EQ(file->tensors()[1].type, tensor_type::bf16);
  EXPECT_EQ(file->tensors()[1].data.size(), 8U);
  EXPECT_EQ(file->tensors()[2].num_dims, 0U);
}

TEST(safetensors_file, order_in_the_header_is_free) {
  const auto header = R"({"b":{"data_offsets":[4,8],"dtype":"F32","shape":[1]},)"
                      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  EXPECT_EQ(problem(header, 8), "was accepted");
}

TEST(safetensors_file, the_header_length_is_bounded) {
  EXPECT_THAT(problem(bytes(7)), HasSubstr("shorter than 8 bytes"));
  for (const std::uint64_t length : {std::uint64_t{9}, std::uint64_t{100'000'001}, ~std::uint64_t{0}}) {
    auto file = safetensors_builder::build_raw("{}", bytes(6));
    std::memcpy(file.data(), &length, sizeof(length));
    EXPECT_THAT(problem(file), HasSubstr("header length")) << length;
  }
}

TEST(safetensors_file, a_header_may_have_100_million_bytes) {
  const test::scratch_folder folder;
  const auto path = folder / "long_header.safetensors";
  for (const std::uint64_t length : {std::uint64_t{100'000'000}, std::uint64_t{100'000'001}}) {
    auto file = safetensors_builder::build_raw(" ", {});
    std::memcpy(file.data(), &length, sizeof(length));
    test::write_bytes(path, file);
    std::filesystem::resize_file(path, 8 + length); // a hole: takes no space
    const auto message = safetensors_file::open(path).error().message();
    EXPECT_THAT(message, HasSubstr(length == 100'000'000 ? "must begin with '{'" : "header length"))
        << length;
  }
}

TEST(safetensors_file, the_header_is_one_strict_object) {
  EXPECT_THAT(problem(" {}", 0), HasSubstr("must begin with '{'"));
  EXPECT_THAT(problem("", 0), HasSubstr("must begin with '{'"));
  EXPECT_EQ(problem("{}  ", 0), "was accepted");
  for (const auto* header :
       {"{", "{}x", "{}{}", "{\"a\"}", "{\"a\":}", "{\"a\":{}}", "{\"a\":1}", "{\"a\":[]}", "{\"a\":\"\"}",
        "{\"a\":null}", "{\"a\":true}", "{\"\\ud800\":{}}"})
    EXPECT_NE(problem(header, 0), "was accepted") << header;
  for (const auto* metadata : {"[]", "1", "null", "{\"a\":1}", "{\"a\":{}}", "{\"a\":[]}", "{\"a\":true}"})
    EXPECT_NE(problem(R"({"__metadata__":)" + std::string(metadata) + "}", 0), "was accepted") << metadata;
}

TEST(safetensors_file, the_members_of_a_tensor_are_strict) {
  const auto with = [](const char* dtype, const char* shape, const char* offsets) {
    return problem(R"({"a":{"dtype":)" + std::string(dtype) + R"(,"shape":)" + shape + R"(,"data_offsets":)" +
                       offsets + "}}",
                   4);
  };
  EXPECT_EQ(with("\"F32\"", "[1]", "[0,4]"), "was accepted");
  EXPECT_EQ(with("\"F32\"", "[]", "[0,4]"), "was accepted");
  // Each of these would be accepted if its error were ignored.
  for (const auto* shape : {"[1.0]", "[null]", "[true]", "[\"1\"]", "[{}]", "[[]]", "[-1]", "[1e0]", "{}",
                            "\"F32\"", "1", "null", "true", "[18446744073709551615]", "[1,1,1,1,1,1]"})
    EXPECT_NE(with("\"F32\"", shape, "[0,4]"), "was accepted") << shape;
  for (const auto* offsets : {"[0,4.0]", "[0,4,null]", "[0,4,true]", "[0,4,\"4\"]", "[0,4,4]", "[0]",
                              "[-0.0,4]", "4", "[0,18446744073709551615]"})
    EXPECT_NE(with("\"F32\"", "[1]", offsets), "was accepted") << offsets;
  for (const auto* dtype : {"[]", "{}", "1", "null", "true"})
    EXPECT_NE(with(dtype, "[1]", "[0,4]"), "was accepted") << dtype;
  EXPECT_NE(problem(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1}})", 4), "was accepted");
  for (const auto* missing : {R"("shape":[1],"data_offsets":[0,4])", R"("dtype":"F32","data_offsets":[0,4])",
                              R"("dtype":"F32","shape":[1])"})
    EXPECT_NE(problem(R"({"a":{)" + std::string(missing) + "}}", 4), "was accepted") << missing;
}

TEST(safetensors_file, nothing_occurs_twice) {
  const std::string entry = R"("a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  EXPECT_EQ(problem("{" + entry + "}", 0), "was accepted");
  EXPECT_THAT(problem("{" + entry + "," + entry + "}", 0), HasSubstr("tensor 'a' occurs twice"));
  EXPECT_THAT(problem(R"({"a":{"dtype":"F32","dtype":"F16","shape":[0],"data_offsets":[0,0]}})", 0),
              HasSubstr("key 'dtype' occurs twice"));
  EXPECT_THAT(problem(R"({"__metadata__":{"k":"1","k":"2"}})", 0), HasSubstr("key 'k' occurs twice"));
  EXPECT_THAT(problem(R"({"__metadata__":{},"__metadata__":{}})", 0), HasSubstr("occurs twice"));
}

TEST(safetensors_file, dtypes_that_are_not_floats_are_refused_by_name) {
  for (const auto* dtype : {"I32", "F64", "U8", "F8_E5M2", "f32", ""}) {
    const auto file = safetensors_builder().add("a", dtype, {1}, bytes(4)).build();
    const auto parsed = safetensors_file::parse(file, "x");
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code(), errc::unsupported);
    EXPECT_THAT(parsed.error().message(), HasSubstr("tensor 'a' has dtype '" + std::string(dtype) + "'"));
  }
}

TEST(safetensors_file, integers_are_read_as_tables) {
  const auto file =
      safetensors_builder().add("d2t", "I64", {2}, bytes(16)).add("t2d", "BOOL", {3}, bytes(3)).build();
  const auto parsed = safetensors_file::parse(file, "x");
  ASSERT_TRUE(parsed) << parsed.error().message();
  EXPECT_EQ(parsed->tensors()[0].integer_bytes, 8);
  EXPECT_EQ(parsed->tensors()[1].integer_bytes, 1);
  EXPECT_FALSE(safetensors_file::parse(safetensors_builder().add("d2t", "I64", {2}, bytes(8)).build(), "x"));
}

TEST(safetensors_file, spans_tile_the_data) {
  const auto header = [](std::string_view first, std::string_view second) {
    return R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[)" + std::string(first) +
           R"(]},"b":{"dtype":"F32","shape":[2],"data_offsets":[)" + std::string(second) + "]}}";
  };
  EXPECT_EQ(problem(header("0,8", "8,16"), 16), "was accepted");
  EXPECT_THAT(problem(header("0,8", "12,20"), 20), HasSubstr("'b' must begin at 8"));        // hole
  EXPECT_THAT(problem(header("0,8", "4,12"), 12), HasSubstr("'b' must begin at 8"));         // overlap
  EXPECT_THAT(problem(header("4,12", "12,20"), 20), HasSubstr("'a' must begin at 0"));       // late
  EXPECT_THAT(problem(header("0,8", "8,16"), 15), HasSubstr("'b' must end between"));        // cut short
  EXPECT_THAT(problem(header("0,8", "8,16"), 17), HasSubstr("1 bytes belong to no tensor")); // polyglot tail
  EXPECT_THAT(problem(header("0,8", "8,12"), 12), HasSubstr("not what dtype and shape imply")); // short
  EXPECT_THAT(problem(header("0,8", "8,4"), 16), HasSubstr("'b' must end between"));
  EXPECT_THAT(problem(header("0,8", "8"), 16), HasSubstr("two numbers"));
  EXPECT_THAT(problem(header("0,8", "8,16,24"), 16), HasSubstr("two numbers"));
}

TEST(safetensors_file, sizes_that_wrap_are_refused) {
  // 2^62 values of 4 bytes wrap to 0.
  EXPECT_NE(problem(R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0),
            "was accepted");
  EXPECT_NE(problem(R"({"a":{"dtype":"F32","shape":[2147483648,2147483648],"data_offsets":[0,0]}})", 0),
            "was accepted");
}

} // namespace
} // namespace paceline::model
