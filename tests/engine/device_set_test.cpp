// Models on devices: what configurations call them, and that the same request says the same wherever target
// and drafter compute. The GPU is the emulation, whose results have the bits of the CPU's.
#include "engine/device_set.hpp"

#include "config/engine_options.hpp"
#include "engine/probe.hpp"
#include "engine/snapshot.hpp"
#include "gpu/cuda_device.hpp"
#include "gpu/emulation/emulated_runtime.hpp"
#include "runtime/device/ops.hpp"
#include "tests/engine/generation.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <unistd.h>

namespace paceline {
namespace {

using testing::generation;
using testing::make_request;

/// An emulated GPU for an engine or a set, which it outlives.
class emulated_gpu {
 public:
  gpu_opener opener() {
    return [this](int index, gpu::arithmetic products) -> expected<std::unique_ptr<device::compute_device>> {
      ++num_opened;
      auto opened = gpu::cuda_device::open(runtime, index, products);
      if (!opened) return std::move(opened).error();
      return std::unique_ptr<device::compute_device>(*std::move(opened));
    };
  }
  gpu::emulation::emulated_runtime runtime{7};
  int num_opened = 0;
};

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
}

TEST(device_set, refuses_names_of_no_device) {
  emulated_gpu gpu;
  auto devices = device_set::make({.partitions = {{}}, .level = {}}, gpu.opener());
  for (const char* name : {"gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cuda:256",
                           "cuda:99999999999", "CPU", "cuda:/reference", "cpu/reference", "/reference",
                           "cuda:0/", "cuda:0/fast", "cuda:0/reference/reference"}) {
    const auto found = devices->get(name);
    ASSERT_FALSE(found) << name;
    EXPECT_EQ(found.error().code(), errc::invalid_argument) << name;
  }
  const auto absent = devices->get("cuda:3");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code(), errc::unsupported);
}

/// An engine of a tiny model and a drafter that is the same model, each on a device.
class engine_on_devices : public ::testing::Test {
 protected:
  engine_on_devices()
      : path_(std::filesystem::temp_directory_path() / ("tiny-" + std::to_string(getpid()) + ".gguf")) {
    test::make_tiny_gguf({.arch = model::architecture::llama, .type = device::tensor_type::q4_0})
        .write(path_);
  }
  ~engine_on_devices() override { std::filesystem::remove(path_); }

  config::engine_options options(const std::string& target, const std::string& drafter) const {
    config::engine_options out;
    out.threads = 1;
    auto& model = out.models.emplace_back();
    model.name = "tiny";
    model.path = path_;
    model.device = target;
    auto& draft = model.drafters.emplace_back();
    draft.name = "same";
    draft.kind = "model";
    draft.path = path_;
    draft.device = drafter;
    draft.draft_length = 3;
    model.default_drafter = "same";
    return out;
  }

  struct said {
    std::vector<token_id> tokens;
    std::string text;
    friend bool operator==(const said&, const said&) = default;
  };

  /// What two requests at once get.
  std::vector<said> answers(const config::engine_options& options, emulated_gpu& gpu,
                            const std::string& drafter = "same") {
    auto engine = engine_probe::start(options, speculation::drafter_registry::with_built_in(), gpu.opener());
    if (!engine) {
      ADD_FAILURE() << engine.error().message();
      return {};
    }
    std::vector<generation> all(2);
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      auto request = make_request(4 + i, 7, i, i == 0 ? 0.0F : 1.0F);
      request.speculation.drafter = drafter;
      (*engine)->submit(std::move(request), all[i].sink());
    }
    std::vector<said> out;
    for (auto& g : all) {
      g.wait();
      EXPECT_NE(g.last().finish, finish_reason::error) << g.last().failure->message();
      out.push_back({g.tokens(), g.text()});
    }
    const auto counters = (*engine)->snapshot().models.at(0);
    EXPECT_EQ(counters.drafters.at(0).num_accepted_tokens > 0, drafter == "same");
    return out;
  }

  std::filesystem::path path_;
};

TEST_F(engine_on_devices, say_the_same_wherever_target_and_drafter_compute) {
  emulated_gpu gpu;
  const auto expected = answers(options("cpu", "auto"), gpu);
  ASSERT_EQ(expected.size(), 2U);
  EXPECT_EQ(expected[0].tokens.size(), 7U);
  EXPECT_EQ(gpu.num_opened, 0);
  EXPECT_EQ(answers(options("cuda:0/reference", "auto"), gpu), expected);
  EXPECT_GT(gpu.runtime.num_calls("cudaLaunchKernel"), 100U);
  EXPECT_EQ(answers(options("cuda:0/reference", "cpu"), gpu), expected);
  EXPECT_EQ(answers(options("cpu", "cuda:0/reference"), gpu), expected);
  EXPECT_EQ(gpu.num_opened, 3);
  EXPECT_EQ(gpu.runtime.num_owned(), 0U) << "an engine gives everything back";
}

TEST_F(engine_on_devices, say_the_same_on_a_gpu_with_its_own_products_however_they_are_drafted) {
  emulated_gpu gpu;
  const auto expected = answers(options("cuda:0", "cpu"), gpu, "none");
  ASSERT_EQ(expected.size(), 2U);
  EXPECT_EQ(expected[0].tokens.size(), 7U);
  EXPECT_EQ(answers(options("cuda:0", "auto"), gpu), expected) << "drafts of the same GPU";
  EXPECT_EQ(answers(options("cuda:0", "cuda:0/reference"), gpu), expected) << "drafts of another arithmetic";
  EXPECT_EQ(answers(options("cuda:0", "cpu"), gpu), expected) << "drafts of the CPU";
  for (const auto overlap : {config::overlap_mode::groups, config::overlap_mode::ahead}) {
    auto overlapped = options("cuda:0", "cpu");
    overlapped.overlap = overlap;
    EXPECT_EQ(answers(overlapped, gpu), expected);
  }
}

TEST_F(engine_on_devices, a_gpu_without_memory_is_an_error_at_the_start) {
  for (std::uint32_t skipped = 0; skipped < 24; skipped += 3) {
    emulated_gpu gpu;
    gpu.runtime.fail("cudaMalloc", skipped, gpu::failure_kind::out_of_memory);
    const auto engine = engine_probe::start(options("cuda:0", "cpu"),
                                            speculation::drafter_registry::with_built_in(), gpu.opener());
    if (engine) break; // more than the load takes
    EXPECT_EQ(engine.error().code(), errc::resource_exhausted) << engine.error().message();
    EXPECT_EQ(gpu.runtime.num_owned(), 0U);
    ASSERT_LT(skipped, 60U);
  }
}

TEST_F(engine_on_devices, a_device_that_is_not_there_is_an_error_with_the_model) {
  emulated_gpu gpu;
  auto wanted = options("cuda:5", "auto");
  auto engine = engine_probe::start(wanted, speculation::drafter_registry::with_built_in(), gpu.opener());
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code(), errc::unsupported);
  EXPECT_EQ(engine.error().message().find("model tiny: device cuda:5"), 0U) << engine.error().message();
}

TEST_F(engine_on_devices, a_gpu_lost_in_a_round_ends_the_requests_with_an_error) {
  emulated_gpu gpu;
  auto engine = engine_probe::start(options("cuda:0", "cpu"), speculation::drafter_registry::with_built_in(),
                                    gpu.opener());
  ASSERT_TRUE(engine) << engine.error().message();
  gpu.runtime.fail("cudaLaunchKernel", 40, gpu::failure_kind::device_lost);
  generation g;
  (*engine)->submit(make_request(4, 30), g.sink());
  g.wait();
  EXPECT_EQ(g.last().finish, finish_reason::error);
  ASSERT_TRUE(g.last().failure);
  EXPECT_NE(g.last().failure->message().find("cuda:0"), std::string::npos) << g.last().failure->message();
}

} // namespace
} // namespace paceline
