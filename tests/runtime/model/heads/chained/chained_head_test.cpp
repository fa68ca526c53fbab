// Hydra and MLP speculators: which rows a pass computes.
#include "runtime/model/kv_cells.hpp"
#include "tests/support/head_test.hpp"

#include <algorithm>
#include <cstring>

namespace paceline::test {
namespace {

class chained_head_test : public head_test {
 protected:
  static constexpr std::uint32_t block_size = 4, num_blocks = 6, num_rows = 20;
  static constexpr float untouched = -1e30F;

  void use(const std::string& kind, const tiny_head& head) {
    auto loaded = load(kind, head);
    ASSERT_TRUE(loaded) << loaded.error().message();
    head_ = *loaded;
    target_kv_ = target_->get().make_kv_storage(num_blocks, block_size, head_->taps());
    make_up(*target_kv_->features());
    kv_ = head_->make_kv_storage(num_blocks, block_size);
    states_ = std::span(kv_->features()->values, num_blocks * block_size * kv_->features()->width());
    std::ranges::fill(states_, untouched);
  }

  /// Runs rows of the text, or with `level` above 0 rows of a draft that follow them; returns the logits of
  /// those in `wanted`.
  std::vector<float> run(std::uint32_t begin, std::uint32_t end, const std::vector<std::uint32_t>& wanted,
                         std::uint32_t level = 0) {
    auto rows = paged_.chain_rows(0, begin, end);
    std::vector<std::uint32_t> cells, levels(rows.size(), level);
    for (auto& row : rows) {
      row.token = token_id{static_cast<std::int32_t>(row.position.value * 5 % vocab)};
      cells.push_back(cell(row.position.value - (level > 0 ? 1 : 0)));
    }
    std::vector<float> logits(wanted.size() * head_->info().vocab_size);
    target_->run([&](device::ops& ops) {
      head_->forward(ops, paged_.batch(rows), {level > 0 ? nullptr : target_kv_->features(), cells, levels},
                     kv_.get(), {wanted, logits});
    });
    return logits;
  }
  std::uint32_t cell(std::uint32_t slot) const {
    const device::kv_copy at = paged_.copy_of(0, slot, slot);
    return at.from_block.value * block_size + at.from_offset;
  }
  bool has_state(std::uint32_t slot) const {
    const std::size_t width = kv_->features()->width();
    return std::ranges::count(states_.subspan(cell(slot) * width, width), untouched) !=
           static_cast<std::ptrdiff_t>(width);
  }

  std::shared_ptr<const model::draft_head> head_;
  std::unique_ptr<model::kv_storage> target_kv_, kv_;
  std::span<float> states_;
  paged_sequences paged_{block_size, num_blocks, 3};
};

TEST_F(chained_head_test, levels_are_computed_for_the_rows_with_logits) {
  paged_.add_sequence(num_rows + 1);
  for (const auto& [kind, files] : {std::pair{"hydra", tiny_head::hydra(hidden, vocab)},
                                    {"hydra", tiny_head::hydra_prefix(hidden, vocab, ffn)},
                                    {"mlp_speculator", tiny_head::mlp_speculator(hidden, vocab)}}) {
    use(kind, files);
    std::vector<std::uint32_t> all;
    for (std::uint32_t i = 0; i < num_rows; ++i) all.push_back(i);
    const std::vector<float> whole = run(0, num_rows, all);
    const std::vector<float> below_whole = run(num_rows, num_rows + 1, {0}, 1);
    use(kind, files);
    run(0, 9, {});
    const std::vector<float> newest = run(9, num_rows, {num_rows - 9 - 1});
    EXPECT_EQ(std::memcmp(newest.data(), whole.data() + whole.size() - newest.size(),
                          newest.size() * sizeof(float)),
              0)
        << kind;
    for (std::uint32_t slot = 0; slot + 1 < num_rows; ++slot) EXPECT_FALSE(has_state(slot)) << kind << slot;
    EXPECT_TRUE(has_state(num_rows - 1)) << kind;
    EXPECT_EQ(run(num_rows, num_rows + 1, {0}, 1), below_whole) << kind;
  }
}

} // namespace
} // namespace paceline::test
