// The forward pass of tiny models on a GPU has the bits of the CPU device, in every family and KV cell type.
#include "runtime/model/loader/gguf/gguf_model.hpp"
#include "runtime/model/transformer_loader.hpp"
#include "tests/gpu/tested_device.hpp"
#include "tests/support/cpu_model.hpp"
#include "tests/support/paged_sequences.hpp"
#include "tests/support/tensor_compare.hpp"
#include "tests/support/tiny_model.hpp"

#include <numeric>
#include <tuple>

namespace paceline::gpu {
namespace {

using device::tensor_type;
using model::architecture;
using test::same_bits;

/// The results of one pass on the host.
struct pass_results {
  std::vector<float> logits, middle, last;
};

/// A draft, and its nodes from the root to the place that is to be chosen.
struct drafted_tree {
  std::vector<std::int32_t> parents;
  std::vector<std::uint32_t> path;
};

/// A pass over the newest token and the draft of each sequence. `requests` and `drafts` point to the rest.
struct drafted_pass {
  std::vector<device::batch_entry> rows;
  std::vector<std::vector<token_id>> tokens;
  std::vector<device::token_choice> requests;
  std::vector<device::drafted_cells> drafts;
};

constexpr token_id right{7}, wrong{8};
const std::vector<std::pair<token_id, float>> right_wins{{right, 1e6F}}; ///< biases

class gpu_forward : public gpu_test,
                    public testing::WithParamInterface<std::tuple<architecture, kv_type, tensor_type>> {
 protected:
  void SetUp() override {
    gpu_test::SetUp();
    if (IsSkipped()) return;
    test::tiny_model options;
    std::tie(options.arch, options.type) = std::tie(std::get<0>(GetParam()), std::get<2>(GetParam()));
    if (options.arch == architecture::smollm3) options.num_layers = 4; // the last is not rotated
    bytes_ = test::make_tiny_gguf(options).build();
    auto parsed = model::gguf_file::parse(bytes_, "tiny.gguf");
    ASSERT_TRUE(parsed) << parsed.error().message();
    file_.emplace(*std::move(parsed));
    here_.emplace(*file_, test::cpu_model_options{1, {}, std::get<1>(GetParam())});
    const auto config = *model::read_gguf_config(*file_);
    const auto source = *model::read_gguf_weights(*file_, config);
    auto loaded =
        model::load_transformer(config, source, gpu_->weights(), gpu_->buffers(),
                                {.kv_type = std::get<1>(GetParam()), .num_threads = 1, .progress = {}});
    ASSERT_TRUE(loaded) << loaded.error().message();
    there_ = *std::move(loaded);
  }
  void TearDown() override {
    kv_there_.reset();
    inputs_there_.reset();
    if (stream_) stream_.reset();
    there_.reset();
    gpu_test::TearDown();
  }

  /// Logits of every row, and the taps after the first layer and after the norm.
  template <class Forward>
  pass_results pass(const device::row_batch& batch, const Forward& forward) {
    const model::model_info& info = there_->info();
    std::vector<std::uint32_t> all(batch.rows.size());
    std::iota(all.begin(), all.end(), 0U);
    pass_results out;
    out.logits.resize(all.size() * info.vocab_size);
    out.middle.resize(all.size() * info.hidden_size);
    out.last.resize(all.size() * info.hidden_size);
    const std::vector<model::tap> taps{{layer_index{0}, out.middle},
                                       {layer_index{info.num_layers}, out.last}};
    forward(model::forward_outputs{all, out.logits, taps});
    return out;
  }

  /// Makes cells on both devices, poisoned so that reads of unwritten cells are visible.
  void make_cells(std::uint32_t block_size, std::uint32_t num_blocks) {
    kv_here_ = here_->make_kv(num_blocks, block_size);
    kv_there_ = there_->make_kv_storage(num_blocks, block_size);
    std::vector<block_id> blocks;
    for (std::uint32_t b = 0; b < num_blocks; ++b) blocks.emplace_back(b);
    kv_here_->poison(blocks), kv_there_->poison(blocks);
  }

  /// Runs `rows` on both devices and expects the same bits. `inputs`: for rows whose input is given.
  void compare(const test::paged_sequences& paged, const std::vector<device::batch_entry>& rows,
               const std::string& what, std::span<const float> inputs = {}) {
    auto batch = paged.batch(rows);
    batch.inputs = inputs.data();
    batch.num_inputs = static_cast<std::uint32_t>(inputs.size() / there_->info().hidden_size);
    const auto expected =
        pass(batch, [&](const auto& outputs) { here_->forward(batch, *kv_here_, outputs); });
    if (!inputs.empty()) {
      if (!inputs_there_) inputs_there_ = gpu_->buffers().allocate(inputs.size_bytes());
      inputs_there_->upload(0, std::as_bytes(inputs));
      batch.inputs = reinterpret_cast<const float*>(inputs_there_->data());
    }
    const auto actual = pass(batch, [&](const auto& outputs) {
      run([&](device::ops& ops) { there_->forward(ops, batch, *kv_there_, outputs); });
    });
    EXPECT_TRUE(same_bits(expected.logits, actual.logits)) << what;
    EXPECT_TRUE(same_bits(expected.middle, actual.middle)) << what;
    EXPECT_TRUE(same_bits(expected.last, actual.last)) << what;
  }

  /// The pass that verifies `trees`, for sequences with `lengths` tokens. Tokens outside of the path are
  /// wrong.
  drafted_pass drafted(test::paged_sequences& paged, std::span<const drafted_tree> trees,
                       std::span<const std::uint32_t> lengths) {
    drafted_pass out;
    out.tokens.resize(trees.size());
    out.requests.resize(trees.size());
    for (std::uint32_t s = 0; s < trees.size(); ++s) {
      const drafted_tree& tree = trees[s];
      device::token_choice& request = out.requests[s];
      request.first_row = static_cast<std::uint32_t>(out.rows.size());
      out.rows.push_back(with_tokens(paged.chain_rows(s, lengths[s] - 1, lengths[s])).front());
      for (auto& row : paged.tree_rows(s, lengths[s], tree.parents)) {
        const bool on_path = std::ranges::count(tree.path, out.tokens[s].size()) > 0;
        row.token = out.tokens[s].emplace_back(on_path ? right : wrong);
        out.rows.push_back(row);
      }
      request.draft_tokens = out.tokens[s];
      request.parents = tree.parents;
      request.temperature = 0;
      request.biases = right_wins;
      out.drafts.push_back({s, s, kv_slot{lengths[s]}, tree.parents});
    }
    return out;
  }

  /// Runs the pass on both devices; the GPU chooses tokens and moves the accepted cells.
  std::vector<device::chosen_run> choose(const test::paged_sequences& paged, const drafted_pass& drafted) {
    const auto batch = paged.batch(drafted.rows);
    std::vector<std::uint32_t> all(drafted.rows.size());
    std::iota(all.begin(), all.end(), 0U);
    std::vector<device::chosen_run> chosen(drafted.requests.size());
    const model::device_choices choices{all, drafted.requests, chosen, drafted.drafts};
    here_->forward(batch, *kv_here_, {});
    run([&](device::ops& ops) { there_->forward(ops, batch, *kv_there_, {{}, {}, {}, &choices}); });
    return chosen;
  }

  std::vector<device::batch_entry> with_tokens(std::vector<device::batch_entry> rows) {
    for (auto& row : rows)
      row.token = token_id{static_cast<std::int32_t>(random_() % there_->info().vocab_size)};
    return rows;
  }

  std::optional<test::cpu_model> here_;
  std::unique_ptr<model::transformer> there_;
  std::unique_ptr<model::kv_storage> kv_here_, kv_there_;
  std::unique_ptr<device::buffer> inputs_there_;

 private:
  std::vector<std::byte> bytes_;
  std::optional<model::gguf_file> file_;
};

TEST_P(gpu_forward, gives_the_bits_of_the_cpu_device) {
  constexpr std::uint32_t block_size = 4, num_blocks = 24;
  test::paged_sequences paged(block_size, num_blocks, random_());
  paged.add_sequence(30);
  paged.add_sequence(9);
  make_cells(block_size, num_blocks);
  auto prompts = paged.chain_rows(0, 0, 13);
  for (const auto& row : paged.chain_rows(1, 0, 6)) prompts.push_back(row);
  compare(paged, with_tokens(prompts), "prompts of two sequences");
  auto mixed = with_tokens(paged.tree_rows(0, 13, {-1, 0, 0, 1, 2, 2, 5}));
  for (const auto& row : with_tokens(paged.chain_rows(1, 6, 7))) mixed.push_back(row);
  compare(paged, mixed, "a tree beside a token");
  // The path 0, 2, 5 was accepted.
  const std::vector<device::kv_copy> copies{paged.copy_of(0, 13 + 2, 13 + 1),
                                            paged.copy_of(0, 13 + 5, 13 + 2)};
  here_->run([&](device::ops& ops) { kv_here_->copy(ops, copies); });
  run([&](device::ops& ops) { kv_there_->copy(ops, copies); });
  compare(paged, with_tokens(paged.chain_rows(0, 16, 17)), "a token after compaction");
}

TEST_P(gpu_forward, takes_inputs_that_are_given) {
  constexpr std::uint32_t block_size = 4, num_blocks = 16;
  test::paged_sequences paged(block_size, num_blocks, random_());
  paged.add_sequence(30);
  make_cells(block_size, num_blocks);
  compare(paged, with_tokens(paged.chain_rows(0, 0, 9)), "a text");
  std::vector<float> inputs(std::size_t{3} * there_->info().hidden_size);
  for (float& value : inputs) value = static_cast<float>(random_() % 2000) / 1000 - 1;
  for (int time = 0; time < 4; ++time) { // from the third on as a graph
    auto rows = with_tokens(paged.tree_rows(0, 9, {-1, -1, 1, 2, 0, 4, 5}));
    const auto vocab_size = static_cast<std::int32_t>(there_->info().vocab_size);
    for (const std::size_t r : {1U, 2U, 3U, 4U, 5U, 6U})
      rows[r].token = token_id{vocab_size + static_cast<std::int32_t>((r - 1) % 3)};
    compare(paged, rows, "look-ahead rows, time " + std::to_string(time), inputs);
  }
}

TEST_P(gpu_forward, a_rows_logits_do_not_depend_on_its_company) {
  constexpr std::uint32_t block_size = 4, num_blocks = 16;
  test::paged_sequences paged(block_size, num_blocks, random_());
  paged.add_sequence(12);
  const auto rows = with_tokens(paged.chain_rows(0, 0, 12));
  const auto together_kv = there_->make_kv_storage(num_blocks, block_size);
  const auto alone_kv = there_->make_kv_storage(num_blocks, block_size);
  const auto pass_on = [&](const std::vector<device::batch_entry>& some, model::kv_storage& kv) {
    const auto batch = paged.batch(some);
    return pass(batch, [&](const auto& outputs) {
      run([&](device::ops& ops) { there_->forward(ops, batch, kv, outputs); });
    });
  };
  const auto together = pass_on(rows, *together_kv);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto alone = pass_on({rows[r]}, *alone_kv);
    ASSERT_TRUE(same_bits(std::span(together.logits).subspan(r * alone.logits.size(), alone.logits.size()),
                          alone.logits));
  }
}

TEST_P(gpu_forward, gives_the_same_bits_when_a_pass_comes_again) {
  // From its third time on, a pass is a graph that was launched before, with other tokens, positions, blocks
  // and lengths; prompts and verification alternate as in rounds.
  constexpr std::uint32_t block_size = 4, num_blocks = 40;
  test::paged_sequences paged(block_size, num_blocks, random_());
  for (int s = 0; s < 3; ++s) paged.add_sequence(40);
  make_cells(block_size, num_blocks);
  for (std::uint32_t s = 0; s < 3; ++s) compare(paged, with_tokens(paged.chain_rows(s, 0, 12)), "a text");
  const auto before = num_graph_launches();
  constexpr std::uint32_t sizes[] = {1, 2, 4, 5, 7};
  for (std::uint32_t time = 0; time < 4; ++time) {
    const std::uint32_t s = time % 3, begin = 12 + 3 * (time / 3) - s;
    for (const std::uint32_t size : sizes)
      compare(paged, with_tokens(paged.chain_rows(s, begin, begin + size)),
              std::to_string(size) + " rows, time " + std::to_string(time));
    auto mixed = with_tokens(paged.tree_rows(s, begin, {-1, 0, 0, 1, 2, 2, 5}));
    const std::uint32_t beside = (s + 1) % 3;
    for (const auto& row : with_tokens(paged.chain_rows(beside, 6, 7))) mixed.push_back(row);
    compare(paged, mixed, "a tree beside a token, time " + std::to_string(time));
  }
  if (before) {
    EXPECT_EQ(*num_graph_launches() - *before, 3 * (std::size(sizes) + 1));
  }
}

TEST_P(gpu_forward, brings_the_paths_that_it_chooses_in_line_without_the_host) {
  // All rounds have the same shape: from the third on they are graphs.
  constexpr std::uint32_t block_size = 4, num_blocks = 40;
  const drafted_tree trees[] = {{{-1, -1, 1, 1, 3, 3, 5}, {1, 3, 5, 6}}, {{-1, 0, -1, 2, 2}, {2, 4}}};
  test::paged_sequences paged(block_size, num_blocks, random_());
  for (int s = 0; s < 2; ++s) paged.add_sequence(40);
  make_cells(block_size, num_blocks);
  std::uint32_t lengths[] = {9, 6};
  auto prompts = with_tokens(paged.chain_rows(0, 0, lengths[0]));
  for (const auto& row : with_tokens(paged.chain_rows(1, 0, lengths[1]))) prompts.push_back(row);
  compare(paged, prompts, "prompts");
  for (std::uint32_t time = 1; time <= 4; ++time) {
    const auto chosen = choose(paged, drafted(paged, trees, lengths));
    std::vector<device::kv_copy> copies;
    std::vector<device::batch_entry> next;
    for (std::uint32_t s = 0; s < 2; ++s) {
      ASSERT_EQ(chosen[s].place, static_cast<std::int32_t>(trees[s].path.back())) << "time " << time;
      const std::uint32_t base = lengths[s];
      for (const std::uint32_t node : trees[s].path)
        copies.push_back(paged.copy_of(s, base + node, lengths[s]++));
      ++lengths[s]; // the token chosen by the last row
      for (const auto& row : with_tokens(paged.chain_rows(s, lengths[s] - 1, lengths[s])))
        next.push_back(row);
    }
    here_->run([&](device::ops& ops) { kv_here_->copy(ops, copies); });
    compare(paged, next, "time " + std::to_string(time));
  }
  if (const auto moved = num_launches(kernel_id::kv_commit)) {
    EXPECT_EQ(*moved, 4U) << "once a pass, for all layers and requests";
    EXPECT_EQ(num_launches(kernel_id::kv_copy), 0U);
    EXPECT_GT(*num_early_launches(), 5 * *num_launches(kernel_id::kv_write)) << "most of a layer's";
  }
}

INSTANTIATE_TEST_SUITE_P(models, gpu_forward,
                         testing::Values(std::tuple(architecture::llama, kv_type::f16, tensor_type::f32),
                                         std::tuple(architecture::llama, kv_type::q8, tensor_type::q8_0),
                                         std::tuple(architecture::qwen2, kv_type::bf16, tensor_type::q4_0),
                                         std::tuple(architecture::qwen3, kv_type::f32, tensor_type::bf16),
                                         std::tuple(architecture::gemma3, kv_type::f16, tensor_type::q4_1),
                                         std::tuple(architecture::granite, kv_type::bf16, tensor_type::q8_0),
                                         std::tuple(architecture::mistral3, kv_type::f16, tensor_type::f32),
                                         std::tuple(architecture::mistral3, kv_type::f32, tensor_type::q8_0),
                                         std::tuple(architecture::olmo2, kv_type::f16, tensor_type::q4_0),
                                         std::tuple(architecture::olmo2, kv_type::f32, tensor_type::f32),
                                         std::tuple(architecture::phi3, kv_type::f16, tensor_type::q4_0),
                                         std::tuple(architecture::smollm3, kv_type::f16, tensor_type::q8_0),
                                         std::tuple(architecture::qwen3moe, kv_type::f16, tensor_type::f32),
                                         std::tuple(architecture::qwen3moe, kv_type::q8, tensor_type::q8_0)),
                         [](const auto& test) {
                           return std::string(to_string(std::get<0>(test.param))) + "_" +
                                  std::string(traits_of(std::get<1>(test.param)).name) + "_" +
                                  std::string(device::traits_of(std::get<2>(test.param))->name);
                         });

} // namespace
} // namespace paceline::gpu
