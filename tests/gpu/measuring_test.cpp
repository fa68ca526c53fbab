// What benches measure on a device: its clock, and its read rate.
#include "gpu/kernels/streamed_params.hpp"
#include "gpu/read_probe.hpp"
#include "tests/gpu/tested_device.hpp"

#include <chrono>

namespace paceline::gpu {
namespace {

using std::chrono::steady_clock;

class device_clock : public gpu_test {};

TEST_F(device_clock, tells_how_long_steps_took_whose_results_the_host_waited_for) {
  float* const values = upload(std::vector<float>(1000, 1.0F));
  EXPECT_EQ(gpu_->times().num_steps, 0U);
  for (std::uint64_t step = 1; step <= 4; ++step) { // as commands, and as graphs
    const auto before = gpu_->times();
    const auto begin = steady_clock::now();
    download(values, 1000);
    const auto wall = steady_clock::now() - begin;
    const auto after = gpu_->times();
    EXPECT_EQ(after.num_steps, step);
    EXPECT_GT(after.busy, before.busy);
    EXPECT_LE(after.busy - before.busy, wall);
    EXPECT_GT(after.launching, before.launching);
  }
}

class read_memory : public gpu_test {
 protected:
  void SetUp() override {
    gpu_test::SetUp();
    if (!IsSkipped()) on_.emplace(*tested_runtime(), 0, "cuda:0");
  }
  std::optional<device_context> on_;
};

TEST_F(read_memory, reads_every_byte_once) {
  constexpr std::uint32_t threads = 64, num_blocks = 2;
  for (const std::size_t num_reads : {1UL, 127UL, 128UL, 129UL, 1024UL, 1025UL, 5000UL}) {
    std::vector<std::uint32_t> words(num_reads * 4);
    for (auto& w : words) w = static_cast<std::uint32_t>(random_());
    std::vector<std::uint32_t> sums(std::size_t{threads} * num_blocks * 4, 7);
    const read_memory_params params{reinterpret_cast<const std::byte*>(upload(words)), num_reads, num_blocks,
                                    upload(sums)};
    command_queue queue(*on_, 0);
    queue.launch(kernel_id::read_memory, {num_blocks, 1, threads, 0}, &params, sizeof params);
    event done(*on_);
    done.record(queue);
    done.wait();
    std::uint32_t expected = 0, actual = 0;
    for (const auto w : words) expected ^= w;
    for (const auto s : download(params.words, sums.size())) actual ^= s;
    EXPECT_EQ(actual, expected) << num_reads;
  }
}

TEST_F(read_memory, tells_a_rate) {
  read_probe probe(*on_, std::size_t{1} << 20);
  for (int sample = 0; sample < 2; ++sample) {
    const auto begin = steady_clock::now();
    const double rate = probe.sample();
    const double wall = std::chrono::duration<double>(steady_clock::now() - begin).count();
    EXPECT_GE(rate, static_cast<double>(4 << 20) / wall) << "the device's time is a part of the host's";
    EXPECT_LT(rate, 1e15);
  }
}

} // namespace
} // namespace paceline::gpu
