#include "runtime/model/transformer_loader.hpp"

#include "runtime/cpu/cpu_device.hpp"
#include "runtime/model/loader/gguf/gguf_model.hpp"
#include "runtime/model/loader/model_source.hpp"
#include "tests/support/paged_sequences.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_hf_model.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>
#include <string>

namespace paceline::model {
namespace {

/// A device memory whose `fail_at`-th packing fails; it counts the live matrices.
class failing_memory final : public device::weight_memory, public device::buffer_memory {
 public:
  explicit failing_memory(cpu::cpu_device& device) : device_(device) {}

  expected<std::unique_ptr<const device::matrix>> pack(std::string_view name,
                                                       const device::tensor_view& tensor,
                                                       const device::bytes_done& done = {},
                                                       const device::bytes_needed& needed = {}) override {
    if (++num_calls == fail_at)
      return error(errc::resource_exhausted, std::string(name) + ": no memory left");
    const std::lock_guard lock(mutex_);
    types[std::string(name)] = tensor.type;
    return device_.pack(name, tensor, done, needed);
  }
  std::unique_ptr<device::buffer> allocate(std::uint64_t num_bytes) override {
    if (refuse_buffers) throw std::bad_alloc();
    allocated += num_bytes;
    return device_.allocate(num_bytes);
  }

  std::atomic<std::uint32_t> num_calls{0};
  std::uint64_t allocated = 0; ///< bytes of all buffers so far
  std::uint32_t fail_at = 0;
  bool refuse_buffers = false;
  std::map<std::string, device::tensor_type> types; ///< of what was packed, by name

 private:
  std::mutex mutex_;
  cpu::cpu_device& device_;
};

class transformer_loader_test : public testing::Test {
 protected:
  void SetUp() override {
    auto made = cpu::cpu_device::make({.partitions = {{}}, .level = {}});
    ASSERT_TRUE(made) << made.error().message();
    device_ = std::move(*made);
    bytes_ = test::make_tiny_gguf({}).build();
    auto file = gguf_file::parse(bytes_, "tiny.gguf");
    ASSERT_TRUE(file) << file.error().message();
    config_ = *read_gguf_config(*file);
    source_ = std::make_unique<weights_source>(std::move(*read_gguf_weights(*file, config_)));
    memory_ = std::make_unique<failing_memory>(*device_);
  }

  expected<std::unique_ptr<transformer>> load(const transformer_load_options& options) {
    memory_->num_calls = 0;
    return load_transformer(config_, *source_, *memory_, *memory_, options);
  }

  std::vector<std::byte> bytes_;
  model_config config_;
  std::unique_ptr<weights_source> source_;
  std::unique_ptr<cpu::cpu_device> device_;
  std::unique_ptr<failing_memory> memory_;
};

TEST_F(transformer_loader_test, progress_ends_at_the_total_and_never_goes_back) {
  for (const std::uint32_t num_threads : {1U, 3U}) {
    std::vector<std::uint64_t> steps;
    std::uint64_t total = 0;
    transformer_load_options options;
    options.num_threads = num_threads;
    options.progress = [&](std::uint64_t done, std::uint64_t all) {
      steps.push_back(done);
      total = all;
    };
    ASSERT_TRUE(load(options));
    EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
    EXPECT_EQ(steps.back(), total);
    EXPECT_EQ(total, source_->total_bytes());
  }
}

TEST_F(transformer_loader_test, codes_and_scales_of_fp8_come_together_and_count_once) {
  const test::scratch_folder folder;
  const std::filesystem::path& directory = folder.path();
  test::write_tiny_hf({.hidden_size = 64, .head_dim = 16, .ffn_size = 192}, directory, 1,
                      {test::fp8_scales::rows});
  const auto opened = open_model(directory);
  ASSERT_TRUE(opened) << opened.error().message();
  for (const std::uint32_t num_threads : {1U, 3U}) {
    std::uint64_t last = 0;
    transformer_load_options options;
    options.num_threads = num_threads;
    options.progress = [&](std::uint64_t done, std::uint64_t) { last = done; };
    ASSERT_TRUE(load_transformer(opened->config, opened->weights, *memory_, *memory_, options));
    EXPECT_EQ(last, opened->weights.total_bytes());
  }
}

/// Logits of ten positions of the model in `directory`, with this number of rows per pass.
std::vector<float> logits_of(const std::filesystem::path& directory, cpu::cpu_device& device,
                             std::uint32_t at_a_time) {
  const auto found = open_model(directory);
  if (!found) throw std::runtime_error(found.error().message());
  const auto& opened = *found;
  const auto loaded = load_transformer(opened.config, opened.weights, device, device, {});
  if (!loaded) throw std::runtime_error(loaded.error().message());
  const auto& model = *loaded;
  test::paged_sequences paged(4, 5, 1);
  paged.add_sequence(10);
  const auto kv = model->make_kv_storage(5, 4);
  const auto stream = device.make_stream("test", 0);
  std::vector<std::uint32_t> all(at_a_time);
  std::iota(all.begin(), all.end(), 0U);
  std::vector<float> out;
  for (std::uint32_t p = 0; p < 10; p += at_a_time) {
    auto rows = paged.chain_rows(0, p, p + at_a_time);
    for (auto& row : rows) row.token = token_id{static_cast<std::int32_t>(row.position.value * 23 % 272)};
    std::vector<float> logits(at_a_time * opened.config.vocab_size);
    const auto done = stream->submit("test", {}, [&](device::ops& ops) {
      model->forward(ops, paged.batch(rows), *kv, {all, logits, {}});
    });
    done.wait();
    EXPECT_FALSE(done.failure());
    out.insert(out.end(), logits.begin(), logits.end());
  }
  return out;
}

TEST_F(transformer_loader_test, a_model_in_fp8_is_to_the_bit_what_its_values_are_in_f32) {
  const test::scratch_folder folder;
  const std::filesystem::path& directory = folder.path();
  for (const auto arch : {architecture::qwen3, architecture::qwen3moe}) {
    const test::tiny_model shape{.arch = arch,
                                 .hidden_size = 192,
                                 .head_dim = 64,
                                 .ffn_size = 320,
                                 .vocab_size = 272,
                                 .expert_ffn_size = 192};
    for (const auto scales : {test::fp8_scales::blocks, test::fp8_scales::rows, test::fp8_scales::one}) {
      test::write_tiny_hf(shape, directory, 1, {scales, true});
      const auto expected = logits_of(directory, *device_, 10);
      test::write_tiny_hf(shape, directory, 1, {scales});
      EXPECT_EQ(logits_of(directory, *device_, 10), expected);
      EXPECT_EQ(logits_of(directory, *device_, 1), expected) << "a row at a time";
      EXPECT_EQ(logits_of(directory, *device_, 5), expected);
      EXPECT_NE(expected[0], 0);
    }
  }
}

TEST_F(transformer_loader_test, routers_are_kept_in_float32) {
  const test::scratch_folder folder;
  test::write_tiny_hf({.arch = architecture::qwen3moe, .type = device::tensor_type::bf16}, folder.path());
  const auto source = open_model(folder.path());
  ASSERT_TRUE(source) << source.error().message();
  ASSERT_TRUE(load_transformer(source->config, source->weights, *memory_, *memory_, {}));
  EXPECT_EQ(memory_->types.at("model.layers.0.mlp.gate.weight"), device::tensor_type::f32);
  EXPECT_EQ(memory_->types.at("model.layers.0.self_attn.q_proj.weight"), device::tensor_type::bf16);
}

TEST_F(transformer_loader_test, a_failure_of_any_tensor_is_reported_by_its_name) {
  transformer_load_options options;
  ASSERT_TRUE(load(options));
  const std::uint32_t num_matrices = memory_->num_calls;
  EXPECT_EQ(num_matrices, 1 + 7 * config_.num_layers);
  for (std::uint32_t n = 1; n <= num_matrices; ++n) {
    memory_->fail_at = n;
    for (const std::uint32_t num_threads : {1U, 2U}) {
      options.num_threads = num_threads;
      const auto failed = load(options);
      ASSERT_FALSE(failed) << "call " << n;
      EXPECT_EQ(failed.error().code(), errc::resource_exhausted);
      EXPECT_NE(failed.error().message().find(".weight: no memory left"), std::string::npos);
    }
  }
  memory_->fail_at = 0;
  memory_->refuse_buffers = true;
  ASSERT_FALSE(load(options));
}

/// Truncates the file while the weights of the model at `path` are read, at the `at`-th report of progress.
expected<std::unique_ptr<transformer>> load_while_cut(const std::filesystem::path& path,
                                                      const std::filesystem::path& file,
                                                      cpu::cpu_device& device, std::uint32_t at) {
  const auto opened = open_model(path);
  if (!opened) return opened.error();
  transformer_load_options options;
  options.progress = [&, reports = 0U](std::uint64_t, std::uint64_t) mutable {
    if (++reports == at) std::filesystem::resize_file(file, 64);
  };
  return load_transformer(opened->config, opened->weights, device, device, options);
}

TEST_F(transformer_loader_test, a_file_cut_short_while_it_is_read_is_an_invalid_file) {
  const test::scratch_folder folder;
  const auto gguf = folder / "tiny.gguf", shard = folder / "hf" / "model.safetensors";
  for (const std::uint32_t at : {1U, 8U}) { // with the vectors, and among the matrices
    test::make_tiny_gguf({}).write(gguf);
    for (const auto scales : {test::fp8_scales::none, test::fp8_scales::rows}) {
      test::write_tiny_hf({.hidden_size = 64, .head_dim = 16, .ffn_size = 192}, folder / "hf", 1, {scales});
      const auto failed = load_while_cut(folder / "hf", shard, *device_, at);
      ASSERT_FALSE(failed);
      EXPECT_EQ(failed.error().code(), errc::invalid_file);
      EXPECT_NE(failed.error().message().find(shard.string() + ": was cut short"), std::string::npos)
          << failed.error().message();
    }
    const auto failed = load_while_cut(gguf, gguf, *device_, at);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code(), errc::invalid_file);
    EXPECT_NE(failed.error().message().find(gguf.string() + ": was cut short"), std::string::npos)
        << failed.error().message();
  }
}

TEST_F(transformer_loader_test, refuses_what_no_kernel_takes) {
  transformer_load_options options;
  config_.head_dim = 1024;
  const auto refused = load(options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::unsupported);
}

TEST_F(transformer_loader_test, a_pool_beyond_all_memory_is_bad_alloc) {
  auto loaded = load({});
  ASSERT_TRUE(loaded);
  EXPECT_THROW((void)(*loaded)->make_kv_storage(0xffffffffU, 0xffffffffU), std::bad_alloc);
  EXPECT_EQ((*loaded)->info().kv_bytes_per_token,
            2U * 2 * config_.num_layers * config_.num_kv_heads * config_.head_dim);
}

TEST_F(transformer_loader_test, cells_take_what_their_type_says) {
  constexpr std::uint32_t num_blocks = 5, block_size = 7;
  const std::uint64_t heads = 2ULL * config_.num_layers * config_.num_kv_heads; // keys and values of a cell
  const std::pair<kv_type, std::uint64_t> head_bytes[] = {{kv_type::f16, 2ULL * config_.head_dim},
                                                          {kv_type::f32, 4ULL * config_.head_dim},
                                                          {kv_type::bf16, 2ULL * config_.head_dim},
                                                          {kv_type::q8, config_.head_dim + 4ULL}};
  for (const auto& [type, bytes] : head_bytes) {
    transformer_load_options options;
    options.kv_type = type;
    auto loaded = load(options);
    ASSERT_TRUE(loaded);
    EXPECT_EQ((*loaded)->info().kv_bytes_per_token, heads * bytes) << traits_of(type).name;
    const std::uint64_t before = memory_->allocated;
    const auto pool = (*loaded)->make_kv_storage(num_blocks, block_size);
    const std::uint64_t exact = heads * bytes * num_blocks * block_size;
    const std::uint64_t taken = memory_->allocated - before;
    EXPECT_GE(taken, exact) << traits_of(type).name;
    EXPECT_LT(taken, exact + config_.num_layers * 4 * 64)
        << traits_of(type).name; // four arrays, each in whole lines
  }
}

} // namespace
} // namespace paceline::model
