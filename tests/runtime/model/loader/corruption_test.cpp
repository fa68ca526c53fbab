#include "runtime/model/loader/families/family_traits.hpp"
#include "runtime/model/loader/gguf/gguf_model.hpp"
#include "runtime/model/loader/gguf/gguf_vocabulary.hpp"
#include "runtime/model/loader/hugging_face/safetensors_file.hpp"
#include "tests/support/all_tensors.hpp"
#include "tests/support/largest_allocation.hpp"
#include "tests/support/tiny_hf_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <span>

namespace paceline::model {
namespace {

/// An allocation that is always allowed: error texts, objects of fixed size.
constexpr std::size_t small_allocation = 4096;

/// Bytes in memory of exactly their size, so that AddressSanitizer detects a read of one byte more.
class exact_copy {
 public:
  explicit exact_copy(std::span<const std::byte> bytes)
      : memory_(std::malloc(std::max<std::size_t>(bytes.size(), 1))), size_(bytes.size()) {
    if (size_ != 0) std::memcpy(memory_, bytes.data(), size_);
  }
  exact_copy(const exact_copy&) = delete;
  exact_copy& operator=(const exact_copy&) = delete;
  ~exact_copy() { std::free(memory_); }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(memory_), size_}; }

 private:
  void* memory_;
  std::size_t size_;
};

/// Sum over all bytes of `weights`, to read every one of them.
unsigned touch(const weights_source& weights) {
  unsigned sum = 0;
  for (const auto& [role, view] : test::all_tensors(weights))
    for (const auto byte : view.tensor.bytes) sum += std::to_integer<unsigned>(byte);
  return sum;
}

/// Opens a GGUF file as far as possible. True if all of it opened. `Deep` also reads every weight.
bool open_gguf(std::span<const std::byte> bytes, bool deep) {
  const exact_copy file_bytes(bytes);
  test::reset_largest_allocation();
  const auto file = gguf_file::parse(file_bytes.bytes(), "x.gguf");
  EXPECT_LE(test::largest_allocation(), 4 * bytes.size() + small_allocation);
  if (!file) return false;
  // A string of a vocabulary takes 32 bytes in memory and at least 8 in the file, a merge 64 and at least 11.
  const auto vocabulary = read_gguf_vocabulary(file->metadata());
  const auto config = read_gguf_config(*file);
  if (!config) return false;
  const auto weights = read_gguf_weights(*file, *config);
  EXPECT_LE(test::largest_allocation(), 6 * bytes.size() + small_allocation);
  if (!weights) return false;
  if (deep) {
    EXPECT_NE(touch(*weights), 0U);
  }
  return vocabulary.has_value();
}

/// The smallest model of a family: one layer of each kind and few vocabulary entries, because corrupting more
/// of them adds nothing.
test::gguf_builder smallest_gguf(architecture arch) {
  const bool has_rules = model::traits_of(arch).has_delta_rules;
  const bool has_two_kinds = arch == architecture::lfm2 || arch == architecture::lfm2moe || has_rules;
  auto builder = test::make_tiny_gguf({.arch = arch,
                                       .type = device::tensor_type::q8_0,
                                       .num_layers = has_two_kinds ? 2U : 1U,
                                       .num_heads = 1,
                                       .num_kv_heads = 1,
                                       .head_dim = has_rules ? 4U : 2U,
                                       .ffn_size = 32,
                                       .vocab_size = 6});
  builder.set_strings("tokenizer.ggml.tokens",
                      std::vector<std::string>{"<unk>", "<0x0A>", "<0xFF>", "a", "b", "ab"});
  builder.set_int32s("tokenizer.ggml.token_type", std::vector<std::int32_t>{2, 6, 6, 1, 1, 1});
  if (arch == architecture::gemma3) {
    builder.set_float32s("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -1, -2, -3});
    builder.set_uint32("tokenizer.ggml.padding_token_id", 5);
  } else {
    builder.set_strings("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
    builder.set_uint32("tokenizer.ggml.bos_token_id", 4).set_uint32("tokenizer.ggml.eos_token_id", 5);
  }
  return builder;
}

class corrupted_gguf : public testing::TestWithParam<architecture> {};

TEST_P(corrupted_gguf, a_file_cut_short_anywhere_is_refused) {
  const auto bytes = smallest_gguf(GetParam()).build();
  ASSERT_TRUE(open_gguf(bytes, true));
  // The padding after the last tensor is unused.
  const auto data_end = bytes.size() - 31;
  for (std::size_t size = 0; size < data_end; ++size)
    ASSERT_FALSE(open_gguf(std::span(bytes).first(size), true)) << "of " << size << " bytes";
}

TEST_P(corrupted_gguf, no_byte_before_the_data_can_break_the_process) {
  const auto builder = smallest_gguf(GetParam());
  auto bytes = builder.build();
  std::size_t num_opened = 0;
  for (std::size_t at = 0; at < builder.header_bytes(); ++at) {
    const auto original = bytes[at];
    for (const unsigned value :
         {0x00U, 0x01U, 0x7fU, 0x80U, 0xfeU, 0xffU, std::to_integer<unsigned>(original) ^ 0x10U}) {
      bytes[at] = static_cast<std::byte>(value);
      // All values are read only at times: this does not depend on the corrupted byte, and is slow.
      num_opened += open_gguf(bytes, at % 64 == 0) ? 1 : 0;
    }
    bytes[at] = original;
  }
  EXPECT_GT(num_opened, 0U); // letters of tokens may change
}

TEST_P(corrupted_gguf, no_size_field_can_break_the_process) {
  const auto builder = smallest_gguf(GetParam());
  auto bytes = builder.build();
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t at = 0; at + 8 <= builder.header_bytes(); ++at) {
    std::uint64_t original;
    std::memcpy(&original, bytes.data() + at, sizeof(original));
    for (const std::uint64_t value : {most, most - 7, most >> 1, most >> 2, std::uint64_t{1} << 32,
                                      std::uint64_t{1} << 30, std::uint64_t{bytes.size()}}) {
      std::memcpy(bytes.data() + at, &value, sizeof(value));
      open_gguf(bytes, false);
    }
    std::memcpy(bytes.data() + at, &original, sizeof(original));
  }
}

INSTANTIATE_TEST_SUITE_P(architectures, corrupted_gguf,
                         testing::Values(architecture::llama, architecture::qwen2, architecture::qwen3,
                                         architecture::qwen3moe, architecture::lfm2, architecture::lfm2moe,
                                         architecture::qwen35, architecture::qwen35moe,
                                         architecture::qwen3next, architecture::granite,
                                         architecture::mistral3, architecture::olmo2, architecture::phi3,
                                         architecture::smollm3, architecture::gemma3),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

/// Counts and sizes may be correct but absurd. Here experts take less space in the file than a view of each
/// would take in memory.
TEST(hostile_gguf, many_small_experts_need_no_memory_of_their_own) {
  for (const bool fused : {false, true}) {
    const auto bytes = test::make_tiny_gguf({.arch = architecture::qwen3moe,
                                             .num_layers = 40,
                                             .hidden_size = 1,
                                             .num_heads = 1,
                                             .num_kv_heads = 1,
                                             .head_dim = 2,
                                             .num_experts = 1024,
                                             .expert_ffn_size = 1,
                                             .dense_layer = -1,
                                             .fused_experts = fused})
                           .build();
    const exact_copy file_bytes(bytes);
    test::reset_largest_allocation();
    const auto file = gguf_file::parse(file_bytes.bytes(), "x.gguf");
    ASSERT_TRUE(file) << file.error().message();
    const auto config = read_gguf_config(*file);
    ASSERT_TRUE(config) << config.error().message();
    const auto weights = read_gguf_weights(*file, *config);
    ASSERT_TRUE(weights) << weights.error().message();
    EXPECT_LE(test::allocated_bytes(), 2 * bytes.size()) << "of a file of " << bytes.size() << " bytes";
    EXPECT_EQ(weights->experts(tensor_role::ffn_up_experts, 39).size(), 1024U);
  }
}

bool open_safetensors(std::span<const std::byte> bytes) {
  const exact_copy file_bytes(bytes);
  test::reset_largest_allocation();
  const auto file = safetensors_file::parse(file_bytes.bytes(), "x.safetensors");
  EXPECT_LE(test::largest_allocation(), 4 * bytes.size() + small_allocation);
  if (!file) return false;
  unsigned sum = 0;
  for (const auto& tensor : file->tensors())
    for (const auto byte : tensor.data) sum += std::to_integer<unsigned>(byte);
  EXPECT_GE(sum, 0U);
  return true;
}

std::vector<std::byte> small_safetensors() {
  test::safetensors_builder builder;
  builder.prologue = R"("__metadata__":{"format":"pt"},)";
  builder.add("model.norm.weight", "F32", {2}, std::vector<std::byte>(8));
  builder.add("model.embed", "BF16", {2, 3}, std::vector<std::byte>(12));
  return builder.build();
}

TEST(corrupted_safetensors, a_file_cut_short_anywhere_is_refused) {
  const auto bytes = small_safetensors();
  ASSERT_TRUE(open_safetensors(bytes));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    ASSERT_FALSE(open_safetensors(std::span(bytes).first(size))) << "of " << size << " bytes";
}

TEST(corrupted_safetensors, no_byte_of_the_header_can_break_the_process) {
  auto bytes = small_safetensors();
  const std::size_t header_end = bytes.size() - 20;
  for (std::size_t at = 0; at < header_end; ++at) {
    const auto original = bytes[at];
    for (unsigned value = 0; value < 256; ++value) {
      bytes[at] = static_cast<std::byte>(value);
      open_safetensors(bytes);
    }
    bytes[at] = original;
  }
}

TEST(corrupted_safetensors, random_edits_cannot_break_the_process) {
  const std::uint64_t seed = 20240607;
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto original = small_safetensors();
  const std::string_view alphabet = "{}[]\",:0129-.eEtfn\\u ";
  for (int round = 0; round < 20000; ++round) {
    auto bytes = original;
    for (auto edits = random() % 4 + 1; edits > 0; --edits) {
      const auto at = 8 + random() % (bytes.size() - 8);
      const auto letter = static_cast<std::byte>(alphabet[random() % alphabet.size()]);
      if (random() % 2 == 0)
        bytes[at] = letter;
      else
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), letter);
    }
    const std::uint64_t header_bytes = bytes.size() - 20 - 8;
    std::memcpy(bytes.data(), &header_bytes, sizeof(header_bytes));
    open_safetensors(bytes);
    ASSERT_FALSE(HasFailure()) << "seed " << seed << " round " << round;
  }
}

} // namespace
} // namespace paceline::model
