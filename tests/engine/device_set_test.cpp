// The names of devices in configurations. The GPU is the emulation.
#include "engine/device_set.hpp"

#include "runtime/device/ops.hpp"
#include "tests/engine/emulated_gpu.hpp"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using emulated_gpu = testing::emulated_gpu<>;

TEST(device_set, gives_the_device_that_a_name_means) {
  emulated_gpu gpu;
  auto devices = device_set::make({.partitions = {{}}, .level = {}}, gpu.opener());
  ASSERT_TRUE(devices);
  auto* const cpu = *devices->get("cpu");
  EXPECT_EQ(cpu->name(), "cpu");
  EXPECT_EQ(*devices->get("auto"), cpu);
  EXPECT_EQ(gpu.num_opened, 0) << "a GPU is opened when a model asks for it";
  auto* const first = *devices->get("cuda:0");
  EXPECT_EQ(first->name(), "cuda:0");
  EXPECT_EQ(*devices->get("cuda:0"), first);
  EXPECT_EQ(gpu.num_opened, 1);
  auto* const reference = *devices->get("cuda:0/reference");
  EXPECT_NE(reference, first);
  EXPECT_EQ(*devices->get("cuda:0/reference"), reference);
  const auto level = [](device::compute_device* of) {
    std::string out;
    const auto stream = of->make_stream("asked", 0);
    stream->submit("level", {}, [&](device::ops& ops) { out = ops.level(); }).wait();
    return out;
  };
  EXPECT_EQ(level(first), "cuda:0/16-bit");
  EXPECT_EQ(level(reference), "cuda:0/reference");
  auto* const fast = *devices->get("cuda:0/fast");
  EXPECT_NE(fast, first);
  EXPECT_EQ(*devices->get("cuda:0/fast"), fast);
  EXPECT_EQ(level(fast), "cuda:0/fast");
  for (const auto* device : {cpu, first, reference}) EXPECT_TRUE(device->is_strict());
  EXPECT_FALSE(fast->is_strict());
}

TEST(device_set, fast_mode_needs_cublaslt_and_says_so) {
  emulated_gpu gpu;
  auto devices = device_set::make({.partitions = {{}}, .level = {}}, gpu.opener());
  gpu.runtime.fail("cublasLtCreate", 0, gpu::failure_kind::other);
  const auto opened = devices->get("cuda:0/fast");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().message().find("cuda:0: cublasLtCreate: emulated: failure"), 0U)
      << opened.error().message();
  EXPECT_EQ(gpu.runtime.num_owned(), 0U);
  EXPECT_TRUE(devices->get("cuda:0")) << "which strict mode does not";
}

TEST(device_set, refuses_names_of_no_device) {
  emulated_gpu gpu;
  auto devices = device_set::make({.partitions = {{}}, .level = {}}, gpu.opener());
  for (const char* name :
       {"gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cuda:256", "cuda:99999999999", "CPU",
        "cuda:/reference", "cpu/reference", "/reference", "cuda:0/", "cuda:0/quick", "cuda:0/fast/",
        "cuda:/fast", "cpu/fast", "cuda:0/fast/reference", "cuda:0/reference/reference"}) {
    const auto found = devices->get(name);
    ASSERT_FALSE(found) << name;
    EXPECT_EQ(found.error().code(), errc::invalid_argument) << name;
  }
  const auto absent = devices->get("cuda:3");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code(), errc::unsupported);
}

/// An engine with a tiny model and a drafter that is the same model, each on a device.

} // namespace
} // namespace paceline
