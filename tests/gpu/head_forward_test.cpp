// Passes of draft heads on a GPU have the bits of the CPU device: over features of a target that ran on the
// same device, and over what their own earlier rows left.
#include "runtime/model/heads/files/head_loader.hpp"
#include "runtime/model/loader/gguf/gguf_model.hpp"
#include "runtime/model/transformer_loader.hpp"
#include "tests/gpu/tested_device.hpp"
#include "tests/support/cpu_model.hpp"
#include "tests/support/paged_sequences.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tensor_compare.hpp"
#include "tests/support/tiny_head.hpp"
#include "tests/support/tiny_model.hpp"

#include <numeric>

namespace paceline::gpu::head_forward_test {
namespace {

using test::same_bits;
using test::tiny_head;

constexpr std::uint32_t num_layers = 8, hidden = 32, vocab = 288;
constexpr std::uint32_t block_size = 4, num_blocks = 12, text_length = 13;

tiny_head head_of(const std::string& kind) {
  if (kind == "eagle3") return tiny_head::eagle3(hidden, hidden, vocab, 100);
  if (kind == "eagle2") return tiny_head::eagle(hidden, vocab);
  return kind == "medusa" ? tiny_head::medusa(hidden, vocab, 3) : tiny_head::hydra(hidden, vocab, 3);
}

/// A target and a head on one device, with their cells.
struct on_device {
  std::shared_ptr<const model::transformer> target;
  std::shared_ptr<const model::draft_head> head;
  std::unique_ptr<model::kv_storage> target_kv, head_kv;
  std::function<void(const device::program&)> run;

  void make_cells() {
    target_kv = target->make_kv_storage(num_blocks, block_size, head->taps());
    if (head->traits().has_cells) head_kv = head->make_kv_storage(num_blocks, block_size);
    std::vector<block_id> blocks;
    for (std::uint32_t b = 0; b < num_blocks; ++b) blocks.emplace_back(b);
    target_kv->poison(blocks);
    if (head_kv) head_kv->poison(blocks);
  }

  void run_target(const device::row_batch& batch) const {
    run([&](device::ops& ops) { target->forward(ops, batch, *target_kv, {}); });
  }

  /// Logits of all rows, which are `level` levels below the text and read these cells.
  std::vector<float> run_head(const device::row_batch& batch, const std::vector<std::uint32_t>& cells,
                              std::uint32_t level) const {
    std::vector<std::uint32_t> all(batch.rows.size()), levels(batch.rows.size(), level);
    std::iota(all.begin(), all.end(), 0U);
    const std::uint32_t num_levels = head->traits().is_parallel ? head->traits().max_levels : 1;
    std::vector<float> logits(all.size() * num_levels * head->info().vocab_size);
    run([&](device::ops& ops) {
      head->forward(ops, batch, {level == 0 ? target_kv->features() : nullptr, cells, levels}, head_kv.get(),
                    {all, logits, num_levels});
    });
    return logits;
  }
};

class gpu_heads : public gpu_test, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    gpu_test::SetUp();
    if (IsSkipped()) return;
    bytes_ = test::make_tiny_gguf({.num_layers = num_layers, .hidden_size = hidden}).build();
    const auto file = *model::gguf_file::parse(bytes_, "tiny.gguf");
    cpu_.emplace(file, test::cpu_model_options{.num_threads = 1, .level = {}, .kv_type = kv_type::f32});
    const auto config = *model::read_gguf_config(file);
    const auto source = *model::read_gguf_weights(file, config);
    here_.target = {std::shared_ptr<void>(), &cpu_->get()};
    there_.target = *model::load_transformer(config, source, gpu_->weights(), gpu_->buffers(),
                                             {.kv_type = kv_type::f32, .num_threads = 1, .progress = {}});
    here_.run = [this](const device::program& work) { cpu_->run(work); };
    there_.run = [this](const device::program& work) { run(work); };
    head_of(GetParam()).write(folder_.path());
    load(here_, cpu_->device(), cpu_->device());
    load(there_, gpu_->weights(), gpu_->buffers());
  }
  void TearDown() override {
    stream_.reset();
    there_ = {};
    gpu_test::TearDown();
  }

  /// Runs the head on both devices and expects the same bits.
  void compare(const device::row_batch& batch, const std::vector<std::uint32_t>& cells, std::uint32_t level) {
    const auto expected = here_.run_head(batch, cells, level), actual = there_.run_head(batch, cells, level);
    EXPECT_TRUE(same_bits(expected, actual)) << "level " << level;
  }
  std::uint32_t cell_of(const device::row_batch& batch, std::uint32_t slot) const {
    return static_cast<std::uint32_t>(device::cell_of(batch.sequences[0], kv_slot{slot}, block_size));
  }
  std::vector<device::batch_entry> with_tokens(std::vector<device::batch_entry> rows) {
    for (auto& row : rows) row.token = token_id{static_cast<std::int32_t>(random_() % vocab)};
    return rows;
  }

  std::optional<test::cpu_model> cpu_;
  on_device here_, there_;

 private:
  void load(on_device& where, device::weight_memory& weights, device::buffer_memory& buffers) {
    const model::head_load_options options{.kv_type = kv_type::f32, .overrides = {}};
    auto loaded = model::load_draft_head(GetParam(), folder_.path(), where.target, options, weights, buffers);
    ASSERT_TRUE(loaded) << loaded.error().message();
    where.head = *std::move(loaded);
    where.make_cells();
  }

  std::vector<std::byte> bytes_;
  test::scratch_folder folder_;
};

TEST_P(gpu_heads, give_the_bits_of_the_cpu_device) {
  test::paged_sequences paged(block_size, num_blocks, random_());
  paged.add_sequence(30);
  const auto text = with_tokens(paged.chain_rows(0, 0, text_length));
  auto batch = paged.batch(text);
  here_.run_target(batch), there_.run_target(batch);

  auto rows = text; // row i has token i + 1
  for (std::uint32_t i = 0; i + 1 < text_length; ++i) rows[i].token = text[i + 1].token;
  rows.pop_back();
  std::vector<std::uint32_t> cells;
  for (std::uint32_t i = 0; i + 1 < text_length; ++i) cells.push_back(cell_of(batch, i));
  const std::vector<device::batch_entry> half(rows.begin(), rows.begin() + 6),
      rest(rows.begin() + 6, rows.end());
  compare(paged.batch(half), {cells.begin(), cells.begin() + 6}, 0);
  compare(paged.batch(rest), {cells.begin() + 6, cells.end()}, 0);
  if (!here_.head->traits().has_cells) return;

  constexpr std::uint32_t base = text_length - 1;
  const auto tree = with_tokens(paged.tree_rows(0, base, {-1, -1, 1, 1}));
  const std::vector<device::batch_entry> first(tree.begin(), tree.begin() + 2),
      second(tree.begin() + 2, tree.end());
  batch = paged.batch(first);
  compare(batch, {cell_of(batch, base - 1), cell_of(batch, base - 1)}, 1);
  batch = paged.batch(second);
  compare(batch, {cell_of(batch, base + 1), cell_of(batch, base + 1)}, 2);
}

INSTANTIATE_TEST_SUITE_P(kinds, gpu_heads, testing::Values("eagle3", "eagle2", "medusa", "hydra"),
                         [](const auto& test) { return std::string(test.param); });

} // namespace
} // namespace paceline::gpu::head_forward_test
