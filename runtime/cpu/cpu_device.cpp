#include "runtime/cpu/cpu_device.hpp"

#include "runtime/base/check.hpp"
#include "runtime/cpu/host_buffer.hpp"
#include "runtime/cpu/packed_matrix.hpp"

#include <cstdlib>
#include <system_error>
#include <unistd.h>

namespace paceline::cpu {

namespace {

expected<std::optional<kernel_level>> level_of_environment() {
  const char* const name = std::getenv("PACELINE_CPU_LEVEL");
  if (name == nullptr || *name == '\0') return std::optional<kernel_level>();
  if (const auto level = parse_kernel_level(name)) return level;
  return error(errc::invalid_argument, "environment PACELINE_CPU_LEVEL: \"" + std::string(name) +
                                           "\" is none of scalar, avx2, avx512vnni");
}

} // namespace

expected<std::unique_ptr<cpu_device>> cpu_device::make(const cpu_device_options& opts) {
  if (opts.partitions.empty())
    return error(errc::invalid_argument, "a CPU device needs at least one partition");
  for (const auto& part : opts.partitions)
    if (part.num_threads == 0 || part.num_threads > 4096)
      return error(errc::invalid_argument, "threads of a CPU partition: " + std::to_string(part.num_threads) +
                                               " is not within 1..4096");
  auto asked = opts.level;
  if (!asked) {
    auto named = level_of_environment();
    if (!named) return std::move(named).error();
    asked = *named;
  }
  const auto level = choose_kernel_level(asked);
  if (!level) return level.error();
  std::unique_ptr<cpu_device> made(new cpu_device(*level));
  try {
    for (const auto& part : opts.partitions)
      made->partitions_.push_back(std::make_unique<partition>(part, *level));
  } catch (const std::system_error& e) {
    return error(errc::resource_exhausted, std::string("threads of a CPU partition: ") + e.what());
  }
  return made;
}

cpu_device::~cpu_device() = default;

std::uint32_t cpu_device::num_threads(std::uint32_t partition) const {
  PACELINE_CHECK(partition < partitions_.size(), "no partition " + std::to_string(partition));
  return partitions_[partition]->num_threads();
}

expected<device::memory_space> cpu_device::cell_memory() {
  const auto machine_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                             static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  return device::memory_space{"host", machine_bytes / 2, false, machine_bytes};
}

std::unique_ptr<device::stream> cpu_device::make_stream(std::string name, std::uint32_t partition,
                                                        device::stream_options options) {
  PACELINE_CHECK(partition < partitions_.size(),
                 "stream " + name + ": no partition " + std::to_string(partition));
  return partitions_[partition]->make_stream(std::move(name), std::move(options));
}

expected<std::unique_ptr<const device::matrix>> cpu_device::pack(std::string_view name,
                                                                 const device::tensor_view& tensor,
                                                                 const device::bytes_done& done,
                                                                 const device::bytes_needed& needed) {
  return pack_matrix(name, tensor, weights_, done, needed);
}

std::unique_ptr<device::buffer> cpu_device::allocate(std::uint64_t num_bytes) {
  return make_host_buffer(num_bytes);
}

} // namespace paceline::cpu
