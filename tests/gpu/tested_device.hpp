#pragma once

#include "gpu/kernels/sixteen_bit.hpp"
#include "gpu/runtime_api.hpp"
#include "runtime/device/buffer.hpp"
#include "runtime/device/compute_device.hpp"
#include "runtime/device/matrix.hpp"
#include "runtime/device/ops.hpp"
#include "tests/support/stored_tensors.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

namespace paceline::gpu {

/// The GPU that a test program tests: the emulation, in which `seed` decides the order of threads, or a real
/// GPU. The program is linked with one of them. Null if this machine has no GPU. Throws std::runtime_error if
/// the GPU cannot be opened.
std::unique_ptr<device::compute_device> make_tested_gpu(std::uint64_t seed, arithmetic products);

/// True for the emulation, which takes seconds for what a GPU does in milliseconds.
bool tested_gpu_is_emulated();

/// The runtime of the last device; null if this machine has no GPU.
runtime_api* tested_runtime();

/// Number of calls of a CUDA runtime function for the last device; nullopt if calls are not counted.
std::optional<std::uint32_t> num_calls(const char* function);
/// Makes the next call of a CUDA runtime function fail. No effect on a real GPU.
void fail_next(const char* function);
inline std::optional<std::uint32_t> num_graph_launches() { return num_calls("cudaGraphLaunch"); }

/// Number of launches of `kernel` on the last device, including those in graphs; nullopt if launches are not
/// counted.
std::optional<std::uint64_t> num_launches(kernel_id kernel);

/// Number of launches on the last device that were allowed to start early; nullopt if launches are not
/// counted.
std::optional<std::uint64_t> num_early_launches();

/// Arrays on a GPU and ops on them, for comparisons with the host's references.
class gpu_test : public testing::Test {
 protected:
  explicit gpu_test(arithmetic products = arithmetic::reference) : products_(products) {}
  void SetUp() override {
    seed_ = std::random_device{}();
    random_.seed(seed_);
    gpu_ = make_tested_gpu(seed_, products_);
    if (!gpu_) GTEST_SKIP() << "this machine has no GPU";
    stream_ = gpu_->make_stream("test", 0);
  }
  void TearDown() override {
    if (HasFailure()) printf("seed %u\n", seed_);
    stream_.reset();
    buffers_.clear();
  }

  /// Runs `work` and waits for its end.
  void run(const device::program& work) {
    const device::fence done = stream_->submit("test", {}, work);
    done.wait();
    if (const auto failure = done.failure()) FAIL() << failure->message();
  }

  /// Copies `values` to the GPU, where they stay until the test ends.
  template <class T>
  T* upload(const std::vector<T>& values) {
    buffers_.push_back(gpu_->buffers().allocate(values.size() * sizeof(T)));
    buffers_.back()->upload(0, std::as_bytes(std::span(values)));
    return reinterpret_cast<T*>(buffers_.back()->data());
  }

  /// Copies `count` values of any type from the GPU. Their bytes must be a multiple of 4.
  template <class T>
  std::vector<T> download(const T* from, std::size_t count) {
    const std::size_t num_bytes = count * sizeof(T);
    EXPECT_EQ(num_bytes % sizeof(float), 0U);
    std::vector<float> bits(num_bytes / sizeof(float));
    run([&](device::ops& ops) { fetch(ops, reinterpret_cast<const float*>(from), bits); });
    std::vector<T> out(count);
    std::memcpy(out.data(), bits.data(), num_bytes);
    return out;
  }

  /// Number of uploaded arrays.
  std::size_t num_uploads() const { return buffers_.size(); }
  /// What the arrays from number `first` on contain.
  std::vector<std::vector<std::byte>> contents_since(std::size_t first) {
    std::vector<std::vector<std::byte>> contents;
    for (std::size_t i = first; i < buffers_.size(); ++i)
      contents.push_back(download(reinterpret_cast<const std::byte*>(buffers_[i]->data()),
                                  static_cast<std::size_t>(buffers_[i]->size_bytes())));
    return contents;
  }
  /// Gives them those contents again, in the same places.
  void restore(std::size_t first, const std::vector<std::vector<std::byte>>& contents) {
    for (std::size_t i = 0; i < contents.size(); ++i) buffers_[first + i]->upload(0, contents[i]);
  }

  std::unique_ptr<const device::matrix> pack(const test::stored_tensor& tensor) {
    auto packed = gpu_->weights().pack("weights", tensor.view());
    EXPECT_TRUE(packed) << packed.error().message();
    return *std::move(packed);
  }

  /// Normally distributed values, one of them an outlier if there are more than 40.
  std::vector<float> values(std::size_t n, float deviation = 1) {
    std::normal_distribution<float> normal(0, deviation);
    std::vector<float> x(n);
    for (float& v : x) v = normal(random_);
    if (n > 40) x[n / 3] = 900 * deviation;
    return x;
  }

  const arithmetic products_;
  std::mt19937 random_;
  std::unique_ptr<device::compute_device> gpu_;
  std::unique_ptr<device::stream> stream_;

 private:
  static void fetch(device::ops& ops, const float* from, std::vector<float>& to);

  std::uint32_t seed_ = 0;
  std::vector<std::unique_ptr<device::buffer>> buffers_;
};

} // namespace paceline::gpu
