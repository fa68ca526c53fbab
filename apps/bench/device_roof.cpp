#include "apps/bench/device_roof.hpp"

#include "apps/bench/machine_limits.hpp"
#include "apps/bench/report.hpp"

#include "config/device_name.hpp"
#include "gpu/open_device.hpp"
#include "gpu/read_probe.hpp"
#include "runtime/cpu/thread_team.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace paceline::apps::bench {

namespace {

class cpu_roof final : public device_roof {
 public:
  explicit cpu_roof(std::uint32_t num_threads) : team_(options_for(num_threads)), limits_(team_) {}
  expected<void> sample() override {
    limits_.sample();
    return {};
  }
  double read_bytes_per_second() const override { return limits_.read_bytes_per_second(); }
  double multiply_adds_per_second() const override { return limits_.multiply_adds_per_second(); }

 private:
  static cpu::thread_team::options options_for(std::uint32_t num_threads) {
    cpu::thread_team::options options;
    options.num_threads = num_threads;
    return options;
  }

  cpu::thread_team team_;
  machine_limits limits_;
};

/// A sixteenth of the memory, within fixed limits.
std::size_t probe_bytes(std::size_t memory_bytes) {
  constexpr std::size_t least = std::size_t{1} << 20;
  return std::clamp(memory_bytes / 16 / least * least, least, gpu::read_probe::enough_bytes);
}

class gpu_roof final : public device_roof {
 public:
  gpu_roof(gpu::runtime_api& api, int index, std::size_t memory_bytes)
      : on_{api, index, "cuda:" + std::to_string(index)}, probe_(on_, probe_bytes(memory_bytes)) {
    probe_.sample(); // the first sample also writes the memory that it reads, and loads the kernel
  }
  expected<void> sample() override {
    try {
      rates_.push_back(probe_.sample());
      return {};
    } catch (const gpu::cuda_failure& e) {
      return e.error();
    }
  }
  double read_bytes_per_second() const override { return summarise(rates_).median; }

 private:
  const gpu::device_context on_;
  gpu::read_probe probe_;
  std::vector<double> rates_;
};

expected<std::unique_ptr<device_roof>> roof_of_gpu(int index) {
  gpu::runtime_api* const api = gpu::runtime_of_devices();
  if (api == nullptr) return error(errc::unsupported, "this machine or build has no GPU");
  gpu::device_facts facts;
  try {
    const gpu::device_context asked{*api, index, "cuda:" + std::to_string(index)};
    asked.require(api->inspect(index, facts), "cudaGetDeviceProperties");
    asked.require(api->use(index), "cudaSetDevice");
    return std::unique_ptr<device_roof>(std::make_unique<gpu_roof>(*api, index, facts.memory_bytes));
  } catch (const gpu::cuda_failure& e) {
    return e.error();
  }
}

} // namespace

expected<std::unique_ptr<device_roof>> roof_of(std::string_view name, std::uint32_t num_threads) {
  const auto device = config::parse_device(name);
  if (!device)
    return error(errc::invalid_argument, "device: \"" + std::string(name) + "\" is " + config::device_rule);
  if (device->gpu) return roof_of_gpu(*device->gpu);
  return std::unique_ptr<device_roof>(std::make_unique<cpu_roof>(num_threads));
}

} // namespace paceline::apps::bench
