#include "runtime/model/loader/gguf/gguf_file.hpp"

#include "tests/support/gguf_builder.hpp"
#include "tests/support/scratch_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>

namespace paceline::model {
namespace {

using device::tensor_type;
using test::gguf_builder;
using testing::HasSubstr;

/// The error of parsing `file`, or a text that no test expects if there is none.
error parse_error(const std::vector<std::byte>& bytes) {
  const auto file = gguf_file::parse(bytes, "x.gguf");
  return file ? error(errc::internal, "was accepted") : file.error();
}

std::vector<std::byte> floats(std::size_t count) { return std::vector<std::byte>(count * sizeof(float)); }

/// Two tensors of 8 floats; the second begins at 32.
gguf_builder two_tensors() {
  gguf_builder file;
  file.add_tensor("a", tensor_type::f32, {8}, floats(8)).add_tensor("b", tensor_type::f32, {4, 2}, floats(8));
  return file;
}

/// Replaces the 8 bytes `from_end` before the end of the tensor list, where the last tensor's offset stands
/// at 8.
std::vector<std::byte> patched(const gguf_builder& file, std::size_t from_end, std::uint64_t value,
                               std::size_t num_bytes = 8) {
  auto bytes = file.build();
  std::memcpy(bytes.data() + file.header_bytes() - from_end, &value, num_bytes);
  return bytes;
}

class gguf_files : public testing::Test {
 protected:
  test::scratch_folder directory_;
};

TEST(gguf_file, a_file_without_tensors_opens) {
  const auto bytes = gguf_builder().set_uint32("a", 7).build();
  const auto file = gguf_file::parse(bytes, "x.gguf");
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(*file->metadata().require_uint("a"), 7U);
  EXPECT_EQ(file->version(), 3U);
}

TEST(gguf_file, tensors_have_their_shape_type_and_bytes) {
  auto builder = two_tensors();
  builder.version = 2;
  const std::vector<std::byte> block(18 * 2, std::byte{7});
  builder.add_tensor("c", tensor_type::q4_0, {32, 1, 2}, block);
  const auto bytes = builder.build();
  const auto file = gguf_file::parse(bytes, "x.gguf");
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->version(), 2U);
  ASSERT_EQ(file->tensors().size(), 3U);
  const auto* c = file->find_tensor("c");
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(c->type, tensor_type::q4_0);
  EXPECT_EQ(c->num_dims, 3U);
  EXPECT_THAT(c->shape, testing::ElementsAre(32, 1, 2, 1));
  EXPECT_TRUE(std::equal(c->data.begin(), c->data.end(), block.begin(), block.end()));
  EXPECT_EQ(c->data.data(), bytes.data() + bytes.size() - 64);
  EXPECT_EQ(file->find_tensor("d"), nullptr);
}

TEST(gguf_file, every_scalar_type_is_read) {
  gguf_builder builder;
  const auto set = [&](const char* key, gguf_type type, auto value) {
    std::vector<std::byte> payload(sizeof(value));
    std::memcpy(payload.data(), &value, sizeof(value));
    builder.set_raw(key, static_cast<std::uint32_t>(type), payload);
  };
  set("u8", gguf_type::uint8, std::uint8_t{200});
  set("i8", gguf_type::int8, std::int8_t{-2});
  set("u16", gguf_type::uint16, std::uint16_t{60000});
  set("i16", gguf_type::int16, std::int16_t{5});
  set("i32", gguf_type::int32, std::int32_t{-7});
  set("u64", gguf_type::uint64, std::numeric_limits<std::uint64_t>::max());
  set("i64", gguf_type::int64, std::int64_t{9});
  set("f64", gguf_type::float64, 0.25);
  builder.set_float32("f32", 1.5F).set_bool("b", true).set_string("s", "text");
  const auto bytes = builder.build();
  const auto file = gguf_file::parse(bytes, "x.gguf");
  ASSERT_TRUE(file) << file.error().message();
  const auto& metadata = file->metadata();
  EXPECT_EQ(*metadata.require_uint("u8"), 200U);
  EXPECT_EQ(*metadata.require_uint("u16"), 60000U);
  EXPECT_EQ(*metadata.require_uint("i16"), 5U);
  EXPECT_EQ(*metadata.require_uint("u64"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(*metadata.require_uint("i64"), 9U);
  EXPECT_EQ(*metadata.require_float("i32", -10, 10), -7.0);
  EXPECT_EQ(*metadata.require_float("f32", 0, 2), 1.5);
  EXPECT_EQ(*metadata.require_float("f64", 0, 2), 0.25);
  EXPECT_TRUE(**metadata.find_bool("b"));
  EXPECT_EQ(*metadata.require_string("s"), "text");
}

TEST(gguf_file, arrays_are_read_in_place) {
  const std::vector<std::string> words = {"one", "", "three"};
  const std::vector<float> numbers = {0.5F, -1.0F};
  const auto bytes = gguf_builder().set_strings("w", words).set_float32s("n", numbers).build();
  const auto file = gguf_file::parse(bytes, "x.gguf");
  ASSERT_TRUE(file) << file.error().message();
  const auto strings = file->metadata().find_strings("w");
  ASSERT_TRUE(strings && *strings);
  EXPECT_THAT(**strings, testing::ElementsAre("one", "", "three"));
  const auto values = file->metadata().find_numbers("n");
  ASSERT_TRUE(values && *values);
  EXPECT_EQ((*values)->size(), 2U);
  EXPECT_EQ((*values)->as_double(1), -1.0);
}

TEST(gguf_file, absent_keys_are_none_and_wrong_types_are_errors) {
  const auto bytes = gguf_builder().set_string("s", "x").set_float32("f", 1).set_int32("i", -1).build();
  const auto file = gguf_file::parse(bytes, "x.gguf");
  ASSERT_TRUE(file);
  const auto& metadata = file->metadata();
  EXPECT_FALSE(metadata.find_uint("none")->has_value());
  EXPECT_FALSE(metadata.find_strings("none")->has_value());
  EXPECT_THAT(metadata.require_uint("none").error().message(),
              HasSubstr("x.gguf: metadata key 'none' is missing"));
  EXPECT_THAT(metadata.find_uint("s").error().message(), HasSubstr("'s' must be an integer, is string"));
  EXPECT_FALSE(metadata.find_uint("f"));
  EXPECT_THAT(metadata.find_uint("i", 0, 9).error().message(), HasSubstr("must be 0 to 9, is -1"));
  EXPECT_FALSE(metadata.find_float("f", 2, 3));
  EXPECT_FALSE(metadata.find_bool("f"));
  EXPECT_FALSE(metadata.find_string("f"));
  EXPECT_FALSE(metadata.find_numbers("f"));
  EXPECT_FALSE(metadata.find_strings("s"));
}

TEST(gguf_file, not_a_number_is_in_no_range) {
  const auto bytes = gguf_builder().set_float32("f", std::numeric_limits<float>::quiet_NaN()).build();
  const auto file = gguf_file::parse(bytes, "x.gguf");
  ASSERT_TRUE(file);
  EXPECT_FALSE(file->metadata().find_float("f", -1e30, 1e30));
}

TEST(gguf_file, other_files_versions_and_byte_orders_are_refused_by_name) {
  auto builder = two_tensors();
  auto bytes = builder.build();
  bytes[0] = std::byte{'g'};
  EXPECT_THAT(parse_error(bytes).message(), HasSubstr("not a GGUF file"));
  for (const auto& [version, text] : {std::pair{1U, "version 1 is not supported"},
                                      {4U, "version 4"},
                                      {0U, "version 0"},
                                      {0x03000000U, "big-endian"}}) {
    builder.version = version;
    const auto problem = parse_error(builder.build());
    EXPECT_EQ(problem.code(), errc::unsupported);
    EXPECT_THAT(problem.message(), HasSubstr(text));
  }
}

TEST(gguf_file, keys_and_tensors_occur_once) {
  auto twice = gguf_builder().set_uint32("key-a", 1).set_uint32("key-b", 2).build();
  const auto at = std::search(twice.begin(), twice.end(), std::begin("key-b"), std::end("key-b") - 1,
                              [](std::byte a, char b) { return a == static_cast<std::byte>(b); });
  *(at + 4) = std::byte{'a'};
  EXPECT_THAT(parse_error(twice).message(), HasSubstr("'key-a' occurs twice"));
  const auto same = two_tensors().add_tensor("a", tensor_type::f32, {8}, floats(8)).build();
  EXPECT_THAT(parse_error(same).message(), HasSubstr("tensor 'a' occurs twice"));
}

TEST(gguf_file, tensors_lie_aligned_apart_and_inside_the_file) {
  const auto builder = two_tensors();
  EXPECT_TRUE(gguf_file::parse(patched(builder, 8, 32), "x.gguf"));
  EXPECT_THAT(parse_error(patched(builder, 8, 33)).message(), HasSubstr("offset 33 is not a multiple"));
  EXPECT_THAT(parse_error(patched(builder, 8, 0)).message(), HasSubstr("overlaps tensor"));
  EXPECT_THAT(parse_error(patched(builder, 8, 64)).message(),
              HasSubstr("tensor 'b': 32 bytes at offset 64 run past"));
  const auto last = std::numeric_limits<std::uint64_t>::max() & ~std::uint64_t{31};
  EXPECT_THAT(parse_error(patched(builder, 8, last)).message(), HasSubstr("run past the end"));
}

TEST(gguf_file, sizes_near_the_largest_number_do_not_wrap) {
  const auto builder = two_tensors();
  for (std::uint64_t below = 0; below <= 64; ++below) {
    const auto huge = std::numeric_limits<std::uint64_t>::max() - below;
    // The last tensor's info ends: dimension 0, dimension 1, type (4), offset (8).
    for (const std::size_t from_end : {28U, 20U, 8U})
      EXPECT_NE(parse_error(patched(builder, from_end, huge)).code(), errc::internal)
          << from_end << " " << below;
    for (const std::uint64_t at : {8U, 16U}) {
      auto bytes = builder.build();
      std::memcpy(bytes.data() + at, &huge, sizeof(huge));
      EXPECT_THAT(parse_error(bytes).message(), HasSubstr("does not fit the file"));
    }
  }
  // 2^62 values of 4 bytes wrap to 0.
  EXPECT_THAT(parse_error(patched(builder, 20, std::uint64_t{1} << 60)).message(), HasSubstr("overflows"));
}

TEST(gguf_file, integers_are_read_as_tables) {
  for (const auto& [number, bytes] : {std::pair{26, 4}, {27, 8}}) {
    gguf_builder builder;
    builder.add_tensor("ids", static_cast<device::tensor_type>(number), {3},
                       std::vector<std::byte>(static_cast<std::size_t>(3 * bytes)));
    const auto file = builder.build();
    const auto parsed = gguf_file::parse(file, "x");
    ASSERT_TRUE(parsed) << parsed.error().message();
    EXPECT_EQ(parsed->tensors()[0].integer_bytes, bytes);
    EXPECT_EQ(parsed->tensors()[0].data.size(), static_cast<std::size_t>(3 * bytes));
  }
}

TEST(gguf_file, unknown_tensor_types_are_refused_and_known_ones_named) {
  const auto builder = two_tensors();
  EXPECT_THAT(parse_error(patched(builder, 12, 200, 4)).message(),
              HasSubstr("type 200 is no known tensor type"));
  const auto of_others = static_cast<int>(device::tensor_type::f8_e4m3); // known, but not to GGML
  EXPECT_THAT(parse_error(patched(builder, 12, of_others, 4)).message(),
              HasSubstr("type 128 is no known tensor type"));
  const auto foreign = parse_error(patched(builder, 12, 16, 4));
  EXPECT_EQ(foreign.code(), errc::unsupported);
  EXPECT_THAT(foreign.message(), HasSubstr("IQ2_XXS"));
  EXPECT_THAT(parse_error(patched(builder, 12, 2, 4)).message(), HasSubstr("not whole blocks of Q4_0"));
}

TEST(gguf_file, alignment_is_a_power_of_two) {
  for (const std::uint32_t alignment : {0U, 1U, 4U, 24U, 1U << 21, 0xffffffffU}) {
    const auto bytes = two_tensors().set_uint32("general.alignment", alignment).build();
    EXPECT_THAT(parse_error(bytes).message(), HasSubstr("'general.alignment' must be")) << alignment;
  }
  EXPECT_THAT(parse_error(two_tensors().set_string("general.alignment", "32").build()).message(),
              HasSubstr("uint32"));
  auto wide = two_tensors().set_uint32("general.alignment", 128);
  wide.alignment = 128;
  EXPECT_TRUE(gguf_file::parse(wide.build(), "x.gguf"));
}

TEST(gguf_file, arrays_of_arrays_and_unknown_types_are_refused) {
  const std::vector<std::byte> nested = {std::byte{9}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
  EXPECT_EQ(parse_error(gguf_builder().set_raw("k", 9, nested).build()).code(), errc::unsupported);
  EXPECT_THAT(parse_error(gguf_builder().set_raw("k", 13, {}).set_uint32("z", 0).build()).message(),
              HasSubstr("'k' has unknown type 13"));
}

TEST(gguf_file, messages_show_hostile_names_escaped_and_short) {
  const std::string name = std::string("\x1b[31m\xff") + std::string(200, 'x');
  const auto bytes = gguf_builder().set_raw(name, 99, {}).set_uint32("z", 0).build();
  const auto message = parse_error(bytes).message();
  EXPECT_THAT(message, HasSubstr("'\\x1b[31m\\xff"));
  EXPECT_LT(message.size(), 160U);
}

TEST_F(gguf_files, a_missing_file_an_empty_one_and_a_directory_are_told_apart) {
  EXPECT_EQ(gguf_file::open(directory_ / "none.gguf").error().code(), errc::not_found);
  EXPECT_EQ(gguf_file::open(directory_.path()).error().code(), errc::invalid_file);
  gguf_builder().write(directory_ / "ok.gguf");
  EXPECT_TRUE(gguf_file::open(directory_ / "ok.gguf"));
  std::filesystem::resize_file(directory_ / "ok.gguf", 0);
  EXPECT_THAT(gguf_file::open(directory_ / "ok.gguf").error().message(), HasSubstr("empty"));
}

/// Part `no` (from 0) of `count`, with one tensor.
gguf_builder part(std::uint16_t no, std::uint16_t count) {
  gguf_builder file;
  file.set_uint16("split.no", no).set_uint16("split.count", count).set_int32("split.tensors.count", count);
  file.add_tensor("tensor" + std::to_string(no), tensor_type::f32, {8},
                  std::vector<std::byte>(32, static_cast<std::byte>(no)));
  return file;
}

TEST_F(gguf_files, a_split_model_opens_by_any_of_its_parts) {
  for (std::uint16_t no = 0; no < 3; ++no)
    part(no, 3).write(directory_ / ("m-0000" + std::to_string(no + 1) + "-of-00003.gguf"));
  for (const char* name : {"m-00001-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    const auto file = gguf_file::open(directory_ / name);
    ASSERT_TRUE(file) << file.error().message();
    EXPECT_EQ(file->num_parts(), 3U);
    ASSERT_EQ(file->tensors().size(), 3U);
    EXPECT_EQ(file->find_tensor("tensor2")->data[31], std::byte{2});
  }
}

TEST_F(gguf_files, a_split_model_with_a_lost_wrong_or_renamed_part_is_refused) {
  part(0, 2).write(directory_ / "m-00001-of-00002.gguf");
  EXPECT_EQ(gguf_file::open(directory_ / "m-00001-of-00002.gguf").error().code(), errc::not_found);
  part(0, 2).write(directory_ / "m-00002-of-00002.gguf");
  EXPECT_THAT(gguf_file::open(directory_ / "m-00001-of-00002.gguf").error().message(),
              HasSubstr("'split.no' must be 1"));
  part(1, 2).set_int32("split.tensors.count", 5).write(directory_ / "m-00002-of-00002.gguf");
  EXPECT_TRUE(gguf_file::open(directory_ / "m-00001-of-00002.gguf"));
  part(0, 2).set_int32("split.tensors.count", 5).write(directory_ / "m-00001-of-00002.gguf");
  EXPECT_THAT(gguf_file::open(directory_ / "m-00001-of-00002.gguf").error().message(),
              HasSubstr("split.tensors.count"));
  auto same_tensor = part(1, 2);
  same_tensor.remove_tensor("tensor1").add_tensor("tensor0", tensor_type::f32, {8}, floats(8));
  part(0, 2).write(directory_ / "m-00001-of-00002.gguf");
  same_tensor.write(directory_ / "m-00002-of-00002.gguf");
  EXPECT_THAT(gguf_file::open(directory_ / "m-00001-of-00002.gguf").error().message(),
              HasSubstr("'tensor0' occurs twice"));
  part(0, 2).write(directory_ / "renamed.gguf");
  EXPECT_THAT(gguf_file::open(directory_ / "renamed.gguf").error().message(),
              HasSubstr("-NNNNN-of-NNNNN.gguf"));
  EXPECT_THAT(parse_error(part(0, 2).build()).message(), HasSubstr("'split.count'"));
}

} // namespace
} // namespace paceline::model
