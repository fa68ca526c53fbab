#include "engine/device_set.hpp"

#include "config/device_name.hpp"

#include <utility>

namespace paceline {
namespace {

gpu::arithmetic products_in(config::gpu_mode mode) {
  switch (mode) {
  case config::gpu_mode::fast:
    return gpu::arithmetic::fast;
  case config::gpu_mode::reference:
    return gpu::arithmetic::reference;
  case config::gpu_mode::strict:
    break;
  }
  return gpu::arithmetic::sixteen_bit;
}

} // namespace

device_set::device_set(std::unique_ptr<cpu::cpu_device> cpu, gpu_opener open_gpu)
    : cpu_(std::move(cpu)), open_gpu_(std::move(open_gpu)) {}

expected<device_set> device_set::make(const cpu::cpu_device_options& cpu, gpu_opener open_gpu) {
  auto made = cpu::cpu_device::make(cpu);
  if (!made) return std::move(made).error();
  return device_set(*std::move(made), std::move(open_gpu));
}

expected<device::compute_device*> device_set::get(std::string_view name) {
  const auto wanted = config::parse_device(name);
  if (!wanted)
    return error(errc::invalid_argument, "device: \"" + std::string(name) + "\" is " + config::device_rule);
  if (!wanted->gpu) return cpu_.get();
  const std::pair key(*wanted->gpu, products_in(wanted->mode));
  if (const auto found = gpus_.find(key); found != gpus_.end()) return found->second.get();
  auto opened = open_gpu_(key.first, key.second);
  if (!opened) return std::move(opened).error();
  return gpus_.emplace(key, *std::move(opened)).first->second.get();
}

} // namespace paceline
