// Hidden states that are stored with the cells of a pool. They have the bits of taps, whatever the passes
// are, and move with the cells.
#include "runtime/model/feature_cells.hpp"

#include "runtime/model/loader/gguf/gguf_model.hpp"
#include "tests/support/cpu_model.hpp"
#include "tests/support/paged_sequences.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

namespace paceline::test {
namespace {

using model::architecture;

constexpr std::uint32_t length = 21, block_size = 4, num_blocks = 12;

class features_test : public ::testing::TestWithParam<architecture> {
 protected:
  features_test() : bytes_(make_tiny_gguf({.arch = GetParam(), .num_layers = 3}).build()) {
    auto parsed = model::gguf_file::parse(bytes_, "tiny.gguf");
    if (!parsed) throw std::runtime_error(parsed.error().message());
    file_.emplace(std::move(*parsed));
    model_.emplace(*file_, cpu_model_options{.num_threads = 2, .level = {}, .kv_type = kv_type::f32});
    std::mt19937 random(3);
    for (std::uint32_t i = 0; i < length; ++i)
      tokens_.emplace_back(static_cast<std::int32_t>(random() % model_->get().info().vocab_size));
    const std::uint32_t last = model_->get().info().num_layers;
    taps_ = {layer_index{0}, layer_index{last - 1}, layer_index{last}}; // not all, and not adjacent
    kv_ = model_->get().make_kv_storage(num_blocks, block_size, taps_);
    std::vector<block_id> all;
    for (std::uint32_t b = 0; b < num_blocks; ++b) all.emplace_back(b);
    kv_->poison(all);
    paged_.add_sequence(length + 8);
  }

  std::vector<device::batch_entry> rows(std::uint32_t begin, std::uint32_t end) {
    auto made = paged_.chain_rows(0, begin, end);
    for (auto& row : made) row.token = tokens_[row.position.value];
    return made;
  }

  /// What the pool stores for `slot`.
  std::vector<float> kept(std::uint32_t slot) const {
    const device::kv_copy at = paged_.copy_of(0, slot, slot);
    const model::feature_cells& features = *kv_->features();
    const float* const from =
        features.values + (at.from_block.value * block_size + at.from_offset) * features.width();
    return {from, from + features.width()};
  }

  /// The same by taps of one pass over the whole text, in a pool without features.
  std::vector<std::vector<float>> by_taps() {
    const std::size_t width = model_->get().info().hidden_size;
    const auto kv = model_->make_kv(num_blocks, block_size);
    std::vector<std::vector<float>> hidden(taps_.size(), std::vector<float>(length * width));
    std::vector<model::tap> wanted;
    for (std::size_t t = 0; t < taps_.size(); ++t) wanted.push_back({taps_[t], hidden[t]});
    model_->forward(paged_.batch(rows(0, length)), *kv, {{}, {}, wanted});
    std::vector<std::vector<float>> by_position(length);
    for (std::uint32_t p = 0; p < length; ++p)
      for (const auto& of_tap : hidden)
        by_position[p].insert(by_position[p].end(), of_tap.begin() + static_cast<std::ptrdiff_t>(p * width),
                              of_tap.begin() + static_cast<std::ptrdiff_t>((p + 1) * width));
    return by_position;
  }

  std::vector<std::byte> bytes_;
  std::optional<model::gguf_file> file_;
  std::optional<cpu_model> model_;
  std::vector<token_id> tokens_;
  std::vector<layer_index> taps_;
  std::unique_ptr<model::kv_storage> kv_;
  paged_sequences paged_{block_size, num_blocks, 5};
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_P(features_test, equal_taps_however_the_text_is_divided_into_passes) {
  const auto expected = by_taps();
  for (std::uint32_t begin = 0; begin < length;) {
    const std::uint32_t end = std::min(length, begin + 1 + begin % 6);
    model_->forward(paged_.batch(rows(begin, end)), *kv_, {{}, {}, {}});
    begin = end;
  }
  for (std::uint32_t p = 0; p < length; ++p) EXPECT_TRUE(same_bits(kept(p), expected[p])) << "position " << p;
  EXPECT_TRUE(std::isnan(kept(length)[0])) << "no row has written there";
}

TEST_P(features_test, of_a_branch_that_is_not_the_first_move_with_its_cells) {
  const auto expected = by_taps();
  const std::uint32_t base = 15;
  model_->forward(paged_.batch(rows(0, base)), *kv_, {{}, {}, {}});
  // Two branches below the text: wrong tokens in slots 15, 17, 19, the text's in 16, 18, 20.
  auto tree = paged_.tree_rows(0, base, {-1, -1, 0, 1, 2, 3});
  for (std::size_t i = 0; i < tree.size(); ++i) {
    const token_id right = tokens_[base + i / 2];
    tree[i].token = i % 2 == 1 ? right : token_id{right.value == 0 ? 1 : 0};
  }
  model_->forward(paged_.batch(tree), *kv_, {{}, {}, {}});
  const std::vector<device::kv_copy> moves{paged_.copy_of(0, 16, 15), paged_.copy_of(0, 18, 16),
                                           paged_.copy_of(0, 20, 17)};
  model_->run([&](device::ops& ops) { kv_->copy(ops, moves); });
  for (std::uint32_t p = 0; p < base + 3; ++p)
    EXPECT_TRUE(same_bits(kept(p), expected[p])) << "position " << p;
}

TEST_P(features_test, moves_of_moved_cells_are_made_in_order) {
  model_->forward(paged_.batch(rows(0, 4)), *kv_, {{}, {}, {}});
  const auto first = kept(0), third = kept(2);
  const std::vector<device::kv_copy> moves{paged_.copy_of(0, 0, 8), paged_.copy_of(0, 8, 9),
                                           paged_.copy_of(0, 2, 8)};
  model_->run([&](device::ops& ops) { kv_->copy(ops, moves); });
  EXPECT_TRUE(same_bits(kept(9), first));
  EXPECT_TRUE(same_bits(kept(8), third));
}

TEST_P(features_test, are_counted_among_the_bytes_of_a_token) {
  const auto& info = model_->get().info();
  EXPECT_EQ(model_->get().cell_bytes(3), info.kv_bytes_per_token + 3 * info.hidden_size * sizeof(float));
  EXPECT_EQ(kv_->features()->bytes_per_token(), 3 * info.hidden_size * sizeof(float));
  EXPECT_EQ(model_->make_kv(2, 4)->features(), nullptr);
}

INSTANTIATE_TEST_SUITE_P(architectures, features_test,
                         ::testing::Values(architecture::llama, architecture::qwen2, architecture::qwen3,
                                           architecture::granite, architecture::gemma3),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

} // namespace
} // namespace paceline::test
