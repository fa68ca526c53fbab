// The forward pass of tiny models on a GPU with 16-bit activations is near that of double precision, and each
// row has the same bits however the rows are divided into passes.
#include "runtime/model/loader/gguf/gguf_model.hpp"
#include "runtime/model/transformer_loader.hpp"
#include "tests/gpu/tested_device.hpp"
#include "tests/support/paged_sequences.hpp"
#include "tests/support/reference_decoder.hpp"
#include "tests/support/tensor_compare.hpp"
#include "tests/support/tiny_model.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <tuple>

namespace paceline::gpu::sixteen_bit_forward_test {
namespace {

using device::tensor_type;
using model::architecture;
using test::same_bits;

constexpr std::uint32_t block_size = 4, num_blocks = 64;

/// The same file with its matrices dequantised to F32.
std::vector<std::byte> with_float32(const test::gguf_builder& file) {
  test::gguf_builder out = file;
  for (const auto& tensor : file.tensors()) {
    if (tensor.type == tensor_type::f32) continue;
    std::vector<float> values(
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::uint64_t{1}, std::multiplies<>()));
    device::dequantize(tensor.type, tensor.data, values);
    const auto bytes = std::as_bytes(std::span(values));
    out.remove_tensor(tensor.name);
    out.add_tensor(tensor.name, tensor_type::f32, tensor.shape, {bytes.begin(), bytes.end()});
  }
  return out.build();
}

/// log-softmax of `logits`.
template <class T>
std::vector<double> log_probabilities(std::span<const T> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const T v : logits) sum += std::exp(double{v} - largest);
  std::vector<double> out;
  for (const T v : logits) out.push_back(double{v} - largest - std::log(sum));
  return out;
}

class sixteen_bit_forward : public gpu_test,
                            public ::testing::WithParamInterface<std::tuple<architecture, tensor_type>> {
 protected:
  explicit sixteen_bit_forward(arithmetic products = arithmetic::sixteen_bit) : gpu_test(products) {}

  void SetUp() override {
    gpu_test::SetUp();
    if (IsSkipped()) return;
    open(tested_model());
    paged_.emplace(block_size, num_blocks, random_());
  }

  static test::tiny_model tested_model() {
    test::tiny_model options;
    std::tie(options.arch, options.type) = GetParam();
    options.context_length = 128;
    if (device::traits_of(options.type)->block_values == 256)
      options.hidden_size = options.ffn_size = options.expert_ffn_size = 256, options.head_dim = 64;
    if (options.type == tensor_type::q8_0) options.ffn_size = 320; // two splits
    return options;
  }

  void open(const test::tiny_model& options) {
    model_.reset();
    const auto builder = test::make_tiny_gguf(options);
    file_.emplace(load(builder.build(), bytes_));
    float32_.emplace(load(with_float32(builder), float32_bytes_));
    const auto config = *model::read_gguf_config(*file_);
    const auto source = *model::read_gguf_weights(*file_, config);
    auto loaded = model::load_transformer(config, source, gpu_->weights(), gpu_->buffers(),
                                          {.kv_type = kv_type::f16, .num_threads = 1, .progress = {}});
    ASSERT_TRUE(loaded) << loaded.error().message();
    model_ = *std::move(loaded);
    vocab_size_ = model_->info().vocab_size;
  }

  void TearDown() override {
    if (stream_) stream_.reset();
    model_.reset();
    gpu_test::TearDown();
  }

  std::unique_ptr<model::kv_storage> make_kv() {
    auto kv = model_->make_kv_storage(num_blocks, block_size);
    std::vector<block_id> blocks;
    for (std::uint32_t b = 0; b < num_blocks; ++b) blocks.emplace_back(b);
    kv->poison(blocks); // makes reads of unwritten cells visible
    return kv;
  }

  /// Logits of every row.
  std::vector<float> pass(const std::vector<device::batch_entry>& rows, model::kv_storage& kv) {
    std::vector<std::uint32_t> all(rows.size());
    std::iota(all.begin(), all.end(), 0U);
    std::vector<float> logits(rows.size() * vocab_size_);
    const auto batch = paged_->batch(rows);
    run([&](device::ops& ops) { model_->forward(ops, batch, kv, {all, logits, {}}); });
    return logits;
  }

  std::vector<device::batch_entry> with_tokens(std::vector<device::batch_entry> rows) {
    for (auto& row : rows) row.token = token_id{static_cast<std::int32_t>(random_() % vocab_size_)};
    return rows;
  }

  /// Logits of `rows`, which are one sequence's, divided into passes of the given numbers of rows, each with
  /// as many rows of `beside`.
  std::vector<float> in_passes(const std::vector<device::batch_entry>& rows,
                               const std::vector<std::uint32_t>& sizes,
                               const std::vector<device::batch_entry>& beside = {}) {
    const auto kv = make_kv();
    return in_passes(rows, sizes, beside, *kv);
  }
  std::vector<float> in_passes(const std::vector<device::batch_entry>& rows,
                               const std::vector<std::uint32_t>& sizes,
                               const std::vector<device::batch_entry>& beside, model::kv_storage& kv) {
    std::vector<float> out;
    std::size_t first = 0, first_beside = 0;
    for (const std::uint32_t size : sizes) {
      const std::size_t num_beside = std::min<std::size_t>(size, beside.size() - first_beside);
      std::vector<device::batch_entry> some(beside.begin() + first_beside,
                                            beside.begin() + first_beside + num_beside);
      some.insert(some.end(), rows.begin() + first, rows.begin() + first + size);
      const auto logits = pass(some, kv);
      out.insert(out.end(), logits.begin() + num_beside * vocab_size_, logits.end());
      first += size, first_beside += num_beside;
    }
    return out;
  }

  void expect_near(std::uint32_t num_rows);

  std::unique_ptr<model::transformer> model_;
  std::optional<test::paged_sequences> paged_;
  std::optional<model::gguf_file> file_, float32_;
  std::uint32_t vocab_size_ = 0;

 private:
  static model::gguf_file load(std::vector<std::byte> from, std::vector<std::byte>& bytes) {
    bytes = std::move(from);
    return *model::gguf_file::parse(bytes, "tiny.gguf");
  }

  std::vector<std::byte> bytes_, float32_bytes_;
};

/// Logits of one pass of a sequence.
void sixteen_bit_forward::expect_near(std::uint32_t num_rows) {
  // Rounding may exchange two experts whose router logits are almost equal, which changes a row's logits by
  // more than 1 (in 10 of 420 random models). Where every expert is used, the logits depend on the router's
  // continuously, and the bounds below hold for mixtures as well.
  if (auto options = tested_model(); has_experts(options, 0)) {
    options.num_used_experts = options.num_experts;
    open(options);
  }
  paged_->add_sequence(num_rows);
  const auto rows = with_tokens(paged_->chain_rows(0, 0, num_rows));
  std::vector<token_id> tokens;
  for (const auto& row : rows) tokens.push_back(row.token);
  const auto config = *model::read_gguf_config(*float32_);
  const auto expected = test::reference_logits(config, *model::read_gguf_weights(*float32_, config), tokens);
  const auto kv = make_kv();
  const auto actual = pass(rows, *kv);
  ASSERT_EQ(actual.size(), expected.size());
  double difference = 0, largest = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto a = log_probabilities(std::span(expected).subspan(r * vocab_size_, vocab_size_));
    const auto b = log_probabilities(std::span<const float>(actual).subspan(r * vocab_size_, vocab_size_));
    for (std::size_t i = 0; i < a.size(); ++i) {
      difference += std::fabs(a[i] - b[i]);
      largest = std::max(largest, std::fabs(a[i] - b[i]));
    }
  }
  const double mean = difference / static_cast<double>(actual.size());
  RecordProperty("mean_difference", std::to_string(mean));
  // Rounding alone gave 0.0021 and 0.028 in 700 random models. The target for real models is a mean of 0.01.
  EXPECT_LE(mean, 0.004);
  EXPECT_LE(largest, 0.1) << "a wrong row or block";
  EXPECT_GT(mean, 0) << "nothing was rounded";
}

TEST_P(sixteen_bit_forward, logits_are_near_those_of_double_precision) { expect_near(24); }

TEST_P(sixteen_bit_forward, a_rows_logits_are_the_same_in_every_cut_and_company) {
  constexpr std::uint32_t length = 75; // more than one slice of 64 rows
  paged_->add_sequence(length);
  paged_->add_sequence(20);
  const auto rows = with_tokens(paged_->chain_rows(0, 0, length));
  const auto beside = with_tokens(paged_->chain_rows(1, 0, 20));
  const auto whole = in_passes(rows, {length});
  EXPECT_TRUE(same_bits(whole, in_passes(rows, {64, 11}))) << "on the grid of slices";
  EXPECT_TRUE(same_bits(whole, in_passes(rows, {1, 2, 3, 5, 8, 9, 16, 17, 14}))) << "chunks";
  EXPECT_TRUE(same_bits(whole, in_passes(rows, {5, 1, 69}, beside))) << "beside another sequence";
}

TEST_P(sixteen_bit_forward, a_rows_logits_are_the_same_when_its_pass_comes_again) {
  // First as commands, then as graphs, with the tokens of two texts in turn. The last pass is new: it reads
  // what the graphs have written.
  paged_->add_sequence(36);
  const auto text = paged_->chain_rows(0, 0, 36);
  const std::vector<device::batch_entry> texts[] = {with_tokens(text), with_tokens(text)};
  const std::vector<std::uint32_t> sizes{7, 1, 5, 9};
  const auto and_last = [&](std::uint32_t num_rows) {
    auto all = sizes;
    all.push_back(num_rows);
    return all;
  };
  // Each has its own cells, so what is expected is not of a graph.
  const auto first = make_kv(), second = make_kv(), kv = make_kv();
  const std::vector<float> expected[] = {in_passes(texts[0], and_last(14), {}, *first),
                                         in_passes(texts[1], and_last(14), {}, *second)};
  for (std::uint32_t time = 0; time < 4; ++time) {
    const auto before = num_graph_launches();
    const auto actual = in_passes(texts[time % 2], and_last(10 + time), {}, *kv);
    EXPECT_TRUE(same_bits(std::span(expected[time % 2]).first(actual.size()), actual)) << "time " << time;
    if (before) {
      EXPECT_EQ(*num_graph_launches() - *before, time > 0 ? sizes.size() : 0) << "time " << time;
    }
  }
}

TEST_P(sixteen_bit_forward, rows_of_a_tree_equal_those_of_a_chain) {
  constexpr std::uint32_t base = 13;
  paged_->add_sequence(30);
  const auto chain = with_tokens(paged_->chain_rows(0, 0, base + 3));
  const auto expected = in_passes(chain, {base + 3});
  auto tree = with_tokens(paged_->tree_rows(0, base, {-1, 0, 0, 1, 2, 2, 5}));
  const std::uint32_t path[] = {0, 2, 5};
  for (std::uint32_t i = 0; i < 3; ++i) tree[path[i]].token = chain[base + i].token;
  const auto kv = make_kv();
  pass({chain.begin(), chain.begin() + base}, *kv);
  const auto actual = pass(tree, *kv);
  for (std::uint32_t i = 0; i < 3; ++i)
    EXPECT_TRUE(same_bits(std::span(expected).subspan((base + i) * vocab_size_, vocab_size_),
                          std::span(actual).subspan(path[i] * vocab_size_, vocab_size_)))
        << "level " << i;
}

/// Prompts of fast mode, multiplied by cuBLASLt.
class fast_forward : public sixteen_bit_forward {
 protected:
  fast_forward() : sixteen_bit_forward(arithmetic::fast) {}
};

TEST_P(fast_forward, logits_of_long_prompts_are_near_those_of_double_precision) { expect_near(75); }

TEST_P(fast_forward, passes_of_few_rows_go_on_as_in_strict_mode) {
  paged_->add_sequence(75);
  const auto rows = with_tokens(paged_->chain_rows(0, 0, 75));
  const auto expected = in_passes(rows, {64, 11});
  EXPECT_TRUE(same_bits(expected, in_passes(rows, {5, 64, 6})));
  if (!tested_gpu_is_emulated()) return; // a GPU may add so few columns in strict mode's order
  EXPECT_FALSE(same_bits(expected, in_passes(rows, {75}))) << "the sums of cuBLASLt";
}

const auto some_models = ::testing::Values(
    std::tuple(architecture::llama, tensor_type::q8_0), std::tuple(architecture::qwen2, tensor_type::q4_0),
    std::tuple(architecture::qwen3, tensor_type::bf16), std::tuple(architecture::gemma3, tensor_type::q4_1),
    std::tuple(architecture::llama, tensor_type::q6_k), std::tuple(architecture::qwen3moe, tensor_type::q8_0),
    std::tuple(architecture::qwen3moe, tensor_type::bf16),
    std::tuple(architecture::qwen3moe, tensor_type::q4_k));

std::string name_of(const ::testing::TestParamInfo<std::tuple<architecture, tensor_type>>& test) {
  return std::string(to_string(std::get<0>(test.param))) + "_" +
         std::string(device::traits_of(std::get<1>(test.param))->name);
}

INSTANTIATE_TEST_SUITE_P(models, sixteen_bit_forward, some_models, name_of);
INSTANTIATE_TEST_SUITE_P(models, fast_forward, some_models, name_of);

} // namespace
} // namespace paceline::gpu::sixteen_bit_forward_test
