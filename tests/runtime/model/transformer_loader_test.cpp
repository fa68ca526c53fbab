#include "runtime/model/transformer_loader.hpp"

#include "runtime/cpu/cpu_device.hpp"
#include "runtime/model/loader/gguf_model.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

namespace paceline::model {
namespace {

/// A device's memory whose `fail_at`-th packing fails; it counts the matrices alive.
class failing_memory final : public device::weight_memory, public device::buffer_memory {
 public:
  explicit failing_memory(cpu::cpu_device& device) : device_(device) {}

  expected<std::unique_ptr<const device::matrix>> pack(std::string_view name,
                                                       const device::tensor_view& tensor,
                                                       const device::bytes_done& done = {}) override {
    if (++num_calls == fail_at)
      return error(errc::resource_exhausted, std::string(name) + ": no memory left");
    return device_.pack(name, tensor, done);
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

 private:
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
