#include "gpu/cuda_device.hpp"

#include "gpu/emulation/emulated_runtime.hpp"
#include "gpu/open_device.hpp"
#include "runtime/device/op_elementwise.hpp"
#include "runtime/device/ops.hpp"
#include "runtime/device/stream.hpp"
#include "tests/support/stored_tensors.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>

namespace paceline::gpu {
namespace {

using device::tensor_type;

TEST(cuda_device, a_number_that_no_device_has_is_an_error_with_the_name) {
  emulation::emulated_runtime runtime;
  for (const int index : {1, -1}) {
    const auto opened = cuda_device::open(runtime, index);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code(), errc::unsupported);
    EXPECT_NE(opened.error().message().find("cuda:" + std::to_string(index)), std::string::npos);
    EXPECT_NE(opened.error().message().find("has 1 CUDA devices"), std::string::npos);
  }
}

TEST(cuda_device, without_a_driver_the_error_says_what_the_runtime_says) {
  emulation::emulated_runtime runtime;
  runtime.fail("cudaGetDeviceCount", 0, failure_kind::other);
  const auto opened = cuda_device::open(runtime, 0);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), errc::unsupported);
  EXPECT_EQ(opened.error().message(), "device cuda:0: emulated: failure 1");
}

TEST(open_device, tells_why_there_is_no_gpu) {
  const auto opened = open_device(200, arithmetic::sixteen_bit);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), errc::unsupported);
  EXPECT_EQ(opened.error().message().find("device cuda:200: "), 0U) << opened.error().message();
}

/// Number of early starts in a program with three consecutive launches.
std::uint64_t num_early_of_three(int compute_capability, int kernel_target, launch_start earliest) {
  emulation::emulated_runtime runtime;
  runtime.have_compute_capability(compute_capability);
  runtime.have_kernels_for(kernel_target);
  const auto gpu = *cuda_device::open(runtime, 0, arithmetic::reference, {.earliest = earliest});
  const auto buffer = gpu->allocate(4 * sizeof(float));
  auto* const values = reinterpret_cast<float*>(buffer->data());
  const auto done = gpu->make_stream("s", 0)->submit("add", {}, [&](device::ops& ops) {
    for (int i = 0; i < 3; ++i) ops.gather({values, 1, values + 1, 1, nullptr, 1, 1});
  });
  done.wait();
  EXPECT_FALSE(done.failure()) << done.failure()->message();
  return runtime.num_early();
}

TEST(cuda_device, launches_start_early_where_the_gpu_knows_how_and_nobody_is_against_it) {
  EXPECT_EQ(num_early_of_three(90, 90, launch_start::early), 2U);
  EXPECT_EQ(num_early_of_three(120, 90, launch_start::early), 2U);
  EXPECT_EQ(num_early_of_three(90, 89, launch_start::early), 0U) << "kernels that do not wait";
  EXPECT_EQ(num_early_of_three(89, 89, launch_start::early), 0U);
  EXPECT_EQ(num_early_of_three(90, 90, launch_start::at_end), 0U);
}

TEST(cuda_device, without_kernels_for_it_is_told_when_it_is_opened) {
  emulation::emulated_runtime runtime;
  runtime.have_compute_capability(80);
  runtime.fail("cudaFuncGetAttributes", 0, failure_kind::other);
  const auto opened = cuda_device::open(runtime, 0);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message().find("for compute capability 8.0"), std::string::npos)
      << opened.error().message();
}

/// The calls of a program that copies a value to the host, on a device that polls for this duration.
struct counted_calls {
  std::uint32_t queries, sleeps, records;
};
counted_calls calls_of_a_program(std::chrono::microseconds polling, std::uint32_t num_not_yet) {
  emulation::emulated_runtime runtime;
  const auto gpu = *cuda_device::open(runtime, 0, arithmetic::reference, {.polling = polling});
  const auto buffer = gpu->allocate(2 * sizeof(float));
  const float one = 1;
  buffer->upload(0, std::as_bytes(std::span(&one, 1)));
  const auto stream = gpu->make_stream("s", 0);
  runtime.say_not_yet(num_not_yet);
  const auto count = [&] {
    return counted_calls{runtime.num_calls("cudaEventQuery"), runtime.num_calls("cudaEventSynchronize"),
                         runtime.num_calls("cudaEventRecord")};
  };
  const counted_calls before = count();
  float got = 0;
  auto* const values = reinterpret_cast<float*>(buffer->data());
  stream
      ->submit("read", {},
               [&](device::ops& ops) {
                 ops.gather({ops.place_for({&got, 1}), 1, values, 1, nullptr, 1, 1});
                 ops.deliver();
               })
      .wait();
  EXPECT_EQ(got, 1);
  const counted_calls after = count();
  return {after.queries - before.queries, after.sleeps - before.sleeps, after.records - before.records};
}

TEST(cuda_device, is_polled_for_a_while_before_a_thread_sleeps_for_it) {
  const auto polled = calls_of_a_program(std::chrono::hours(1), 3);
  EXPECT_EQ(polled.queries, 4U);
  EXPECT_EQ(polled.sleeps, 0U);
  EXPECT_EQ(polled.records, 1U) << "what the host has waited for is not waited for again";
  const auto slept = calls_of_a_program(std::chrono::microseconds(0), 3);
  EXPECT_EQ(slept.queries, 0U);
  EXPECT_EQ(slept.sleeps, 1U);
  EXPECT_EQ(slept.records, 1U);
  const auto both = calls_of_a_program(std::chrono::milliseconds(1), 1'000'000'000);
  EXPECT_GT(both.queries, 0U);
  EXPECT_EQ(both.sleeps, 1U);
}

TEST(open_device, takes_what_is_turned_off_from_the_environment) {
  if (!built_with_cuda()) GTEST_SKIP() << "built without CUDA";
  for (const std::string name : {"PACELINE_CUDA_EARLY_STARTS", "PACELINE_CUDA_POLLING"}) {
    for (const std::string value : {"", "0", "1", "often"}) {
      setenv(name.c_str(), value.c_str(), 1);
      const auto opened = open_device(200, arithmetic::sixteen_bit);
      unsetenv(name.c_str());
      ASSERT_FALSE(opened);
      const bool is_known = value != "often";
      EXPECT_EQ(opened.error().code(), is_known ? errc::unsupported : errc::invalid_argument) << value;
      EXPECT_EQ(opened.error().message().find(name + ": \"often\"") == std::string::npos, is_known);
    }
  }
}

TEST(cuda_device, pack_reports_every_byte_once_and_in_order) {
  emulation::emulated_runtime runtime;
  const auto gpu = *cuda_device::open(runtime, 0);
  std::mt19937 random(1);
  const auto tensor = test::random_tensor(tensor_type::q8_0, 1003, 16384, random);
  std::vector<std::span<const std::byte>> parts;
  const auto packed = gpu->pack("w", tensor.view(), [&](auto part) { parts.push_back(part); });
  ASSERT_TRUE(packed);
  EXPECT_EQ((*packed)->size_bytes(), tensor.bytes.size());
  EXPECT_GE(parts.size(), 2U) << "a large tensor is reported in parts";
  EXPECT_TRUE(test::are_in_order(parts, tensor.bytes));
}

TEST(cuda_device, packing_for_streams_reports_every_byte_and_takes_little_more_room) {
  emulation::emulated_runtime runtime;
  const auto gpu = *cuda_device::open(runtime, 0, arithmetic::sixteen_bit);
  std::mt19937 random(1);
  for (const tensor_type type :
       {tensor_type::q8_0, tensor_type::q4_k, tensor_type::bf16, tensor_type::q5_1, tensor_type::f8_e4m3}) {
    const std::uint32_t num_cols = type == tensor_type::bf16 ? 16384 : 4096;
    const auto tensor = test::random_tensor(type, 287, num_cols, random);
    std::vector<std::span<const std::byte>> parts;
    const auto packed = gpu->pack("w", tensor.view(), [&](auto part) { parts.push_back(part); });
    ASSERT_TRUE(packed);
    EXPECT_EQ(parts.size() >= 2, tensor.bytes.size() > std::size_t{8} << 20)
        << "a large tensor is reported in parts";
    EXPECT_TRUE(test::are_in_order(parts, tensor.bytes));
    EXPECT_GE((*packed)->size_bytes(), tensor.bytes.size());
    EXPECT_LE(static_cast<double>((*packed)->size_bytes()), 1.01 * static_cast<double>(tensor.bytes.size()));
  }
}

TEST(cuda_device, packing_for_streams_gives_back_what_it_took_wherever_it_fails) {
  std::mt19937 random(1);
  const auto tensor = test::random_tensor(tensor_type::bf16, 20, 64, random);
  for (const char* call : {"cudaMalloc", "cudaMemcpyAsync", "cudaLaunchKernel", "cudaEventSynchronize"}) {
    for (std::uint32_t skipped = 0;; ++skipped) {
      emulation::emulated_runtime runtime;
      const auto gpu = *cuda_device::open(runtime, 0, arithmetic::sixteen_bit);
      const auto owned = runtime.num_owned();
      runtime.fail(call, skipped, failure_kind::out_of_memory);
      const auto packed = gpu->pack("blk.0.attn_q.weight", tensor.view());
      if (packed) {
        EXPECT_GT(skipped, 0U) << call << " never failed";
        break;
      }
      EXPECT_NE(packed.error().message().find("blk.0.attn_q.weight"), std::string::npos);
      EXPECT_EQ(runtime.num_owned(), owned) << call << ", " << skipped;
    }
  }
}

TEST(cuda_device, making_a_set_gives_back_what_it_took_wherever_it_fails) {
  std::mt19937 random(1);
  const auto tensor = test::random_tensor(tensor_type::bf16, 20, 64, random);
  for (const char* call : {"cudaMalloc", "cudaMemcpyAsync", "cudaEventRecord", "cudaEventSynchronize"}) {
    for (std::uint32_t skipped = 0;; ++skipped) {
      emulation::emulated_runtime runtime;
      const auto gpu = *cuda_device::open(runtime, 0, arithmetic::sixteen_bit);
      const auto owned = runtime.num_owned();
      std::vector<std::unique_ptr<const device::matrix>> matrices;
      for (int i = 0; i < 3; ++i) matrices.push_back(*gpu->pack("expert", tensor.view()));
      runtime.fail(call, skipped, failure_kind::out_of_memory);
      auto set = gpu->make_set("blk.0.ffn_up_exps.weight", std::move(matrices));
      if (set) {
        EXPECT_GT(skipped, 0U) << call << " never failed";
        EXPECT_EQ(runtime.num_owned(), owned + 2) << "weights and their multipliers, in one piece each";
        set->reset();
      } else {
        EXPECT_EQ(set.error().code(), errc::resource_exhausted);
        EXPECT_NE(set.error().message().find("blk.0.ffn_up_exps.weight"), std::string::npos);
      }
      EXPECT_EQ(runtime.num_owned(), owned) << call << ", " << skipped;
      if (set) break;
    }
  }
}

TEST(cuda_device, pack_names_the_tensor_when_a_rule_is_broken_or_memory_is_short) {
  emulation::emulated_runtime runtime;
  const auto gpu = *cuda_device::open(runtime, 0);
  std::mt19937 random(1);
  const auto tensor = test::random_tensor(tensor_type::q4_k, 4, 256, random);
  auto view = tensor.view();
  view.num_rows = 5;
  const auto broken = gpu->pack("blk.0.attn_q.weight", view);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code(), errc::invalid_file);
  EXPECT_NE(broken.error().message().find("blk.0.attn_q.weight"), std::string::npos);
  runtime.fail("cudaMalloc", 0, failure_kind::out_of_memory);
  const auto large = gpu->pack("blk.0.attn_q.weight", tensor.view());
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code(), errc::resource_exhausted);
  EXPECT_NE(large.error().message().find("blk.0.attn_q.weight"), std::string::npos);
}

TEST(cuda_device, a_buffer_takes_bytes_within_its_range_only) {
  emulation::emulated_runtime runtime;
  const auto gpu = *cuda_device::open(runtime, 0);
  const auto buffer = gpu->allocate(100);
  const std::vector<std::byte> ones(40, std::byte{1});
  buffer->upload(60, ones);
  buffer->fill(50, 10, std::byte{2});
  std::byte there[50];
  raw_stream stream = nullptr;
  runtime.make_stream(stream, 0);
  runtime.copy_out(there, buffer->data() + 50, sizeof there, stream); // at once, on the emulation
  runtime.end_stream(stream);
  EXPECT_EQ(there[9], std::byte{2});
  EXPECT_EQ(there[10], std::byte{1});
  EXPECT_EQ(there[49], std::byte{1});
  EXPECT_THROW(buffer->upload(61, ones), std::logic_error);
  EXPECT_THROW(buffer->fill(99, 2, std::byte{0}), std::logic_error);
  runtime.fail("cudaMalloc", 0, failure_kind::out_of_memory);
  EXPECT_THROW(gpu->allocate(100), std::bad_alloc);
}

TEST(cuda_device, leaves_a_tenth_of_what_is_free) {
  emulation::emulated_runtime runtime;
  const auto gpu = *cuda_device::open(runtime, 0);
  runtime.have_free(1000);
  const auto space = gpu->cell_memory();
  ASSERT_TRUE(space);
  EXPECT_EQ(space->name, "cuda:0");
  EXPECT_EQ(space->bytes_for_cells, 900U);
  EXPECT_TRUE(space->taken_whole);
  runtime.fail("cudaMemGetInfo", 0, failure_kind::device_lost);
  EXPECT_EQ(gpu->cell_memory().error().code(), errc::device_lost);
}

TEST(emulated_gpu, memory_is_closed_to_the_host) {
  emulation::emulated_runtime runtime;
  const auto gpu = *cuda_device::open(runtime, 0);
  const auto buffer = gpu->allocate(100);
  buffer->fill(0, 100, std::byte{1});
  EXPECT_DEATH(static_cast<void>(*static_cast<volatile std::byte*>(buffer->data())), "");
}

} // namespace
} // namespace paceline::gpu
