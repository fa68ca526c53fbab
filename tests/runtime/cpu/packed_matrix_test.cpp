// The packed form of a weight, and the embedding rows that are read from it.
#include "runtime/cpu/packed_matrix.hpp"

#include "runtime/base/check.hpp"
#include "runtime/cpu/cpu_ops.hpp"
#include "runtime/cpu/thread_team.hpp"
#include "runtime/cpu/weight_arena.hpp"
#include "runtime/device/op_embed.hpp"
#include "runtime/device/stored_block.hpp"
#include "tests/support/stored_tensors.hpp"
#include "tests/support/tensor_compare.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

namespace paceline::cpu::packed_matrix_test {
namespace {

using device::tensor_type;
using test::all_tensor_types;
using test::guarded_floats;
using test::same_bits;
using test::stored_tensor;

weight_arena arena;

TEST(embed, gives_the_dequantised_rows_of_every_type) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  thread_team team(thread_team::options{});
  cpu_ops ops(team, kernel_level::scalar);
  for (const tensor_type type : all_tensor_types) {
    const std::uint32_t width = test::some_widths(type).back();
    const stored_tensor tensor = test::random_tensor(type, 50, width, random);
    std::vector<float> values(50 * width), expected;
    device::dequantize(type, tensor.bytes, values);
    const auto table = *pack_matrix("embedding", tensor.view(), arena);
    const std::vector<token_id> tokens{token_id{49}, token_id{0}, token_id{17}, token_id{17}};
    for (const token_id token : tokens)
      for (std::uint32_t k = 0; k < width; ++k) expected.push_back(values[token.value * width + k] * 24.5f);
    guarded_floats out(tokens.size() * width);
    ops.embed({table.get(), tokens, out.data(), width, 24.5f});
    EXPECT_TRUE(same_bits(expected, out.values())) << device::traits_of(type)->name << ", seed " << seed;
    EXPECT_TRUE(out.intact());
  }
}

TEST(embed, refuses_tokens_outside_the_vocabulary) {
  std::mt19937 random(1);
  const auto table =
      *pack_matrix("embedding", test::random_tensor(tensor_type::q8_0, 20, 32, random).view(), arena);
  thread_team team(thread_team::options{});
  cpu_ops ops(team, kernel_level::scalar);
  std::vector<float> out(32);
  for (const std::int32_t token : {-1, 20, std::numeric_limits<std::int32_t>::min()}) {
    const std::vector<token_id> tokens{token_id{token}};
    EXPECT_THROW(ops.embed({table.get(), tokens, out.data(), 32, 1}), check_failure);
  }
}

TEST(pack, takes_about_the_bytes_of_the_file) {
  std::mt19937 random(1);
  for (const tensor_type type : all_tensor_types) {
    const stored_tensor tensor = test::random_tensor(type, 64, 1024, random);
    const auto made = *pack_matrix("weights", tensor.view(), arena);
    EXPECT_GE(made->size_bytes(), tensor.bytes.size()) << device::traits_of(type)->name;
    const double allowed = type == tensor_type::q2_k ? 1.2 : 1.06; // minima and scales of 4 bits take 8
    EXPECT_LE(static_cast<double>(made->size_bytes()), allowed * static_cast<double>(tensor.bytes.size()))
        << device::traits_of(type)->name;
  }
}

TEST(pack, reports_every_byte_once_and_in_order) {
  std::mt19937 random(1);
  const stored_tensor tensor = test::random_tensor(tensor_type::q8_0, 1003, 8192, random);
  std::vector<std::span<const std::byte>> parts;
  const auto made = pack_matrix("weights", tensor.view(), arena, [&](auto bytes) { parts.push_back(bytes); });
  ASSERT_TRUE(made);
  EXPECT_GE(parts.size(), 2U) << "a large tensor is reported in parts";
  EXPECT_TRUE(test::are_in_order(parts, tensor.bytes));
}

TEST(pack, names_the_tensor_and_the_rule_it_breaks) {
  std::mt19937 random(1);
  stored_tensor tensor = test::random_tensor(tensor_type::q4_k, 4, 256, random);
  const auto failure_of = [&](const std::function<void(device::tensor_view&)>& damage) {
    device::tensor_view view = tensor.view();
    damage(view);
    auto made = pack_matrix("blk.0.attn_q.weight", view, arena);
    EXPECT_FALSE(made);
    if (made) return std::string();
    EXPECT_EQ(made.error().code(), errc::invalid_file);
    EXPECT_NE(made.error().message().find("blk.0.attn_q.weight"), std::string::npos);
    return made.error().message();
  };
  EXPECT_NE(failure_of([](auto& v) { v.num_cols = 288; }).find("whole blocks"), std::string::npos);
  EXPECT_NE(failure_of([](auto& v) { v.num_rows = 5; }).find("bytes"), std::string::npos);
  EXPECT_NE(failure_of([](auto& v) { v.num_rows = 0; }).find("within"), std::string::npos);
  EXPECT_NE(failure_of([](auto& v) { v.num_cols = 0; }).find("within"), std::string::npos);
  EXPECT_NE(failure_of([](auto& v) { v.num_rows = std::uint64_t{1} << 60; }).find("within"),
            std::string::npos);
  EXPECT_NE(failure_of([](auto& v) { v.bytes = v.bytes.first(143); }).find("143"), std::string::npos);
  EXPECT_NE(failure_of([](auto& v) { v.type = static_cast<tensor_type>(99); }).find("unknown type"),
            std::string::npos);
}

} // namespace
} // namespace paceline::cpu::packed_matrix_test
