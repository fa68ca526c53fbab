#include "runtime/cpu/kernel_level.hpp"

#include <array>
#include <string>

namespace paceline::cpu {
namespace {

constexpr std::array levels{kernel_level::scalar, kernel_level::avx2, kernel_level::avx_vnni,
                            kernel_level::avx512_vnni};

} // namespace

std::string_view to_string(kernel_level level) noexcept {
  switch (level) {
  case kernel_level::scalar:
    return "scalar";
  case kernel_level::avx2:
    return "avx2";
  case kernel_level::avx_vnni:
    return "avx_vnni";
  case kernel_level::avx512_vnni:
    return "avx512vnni";
  }
  return "unknown";
}

std::optional<kernel_level> parse_kernel_level(std::string_view name) noexcept {
  for (const kernel_level level : levels)
    if (name == to_string(level)) return level;
  return std::nullopt;
}

bool machine_runs(kernel_level level) noexcept {
  if (level == kernel_level::scalar) return true;
#if defined(__x86_64__)
  // The compiler's run-time library checks the operating system's support as well as the processor's.
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c"))
    return false;
  if (level == kernel_level::avx2) return true;
  if (level == kernel_level::avx_vnni) return __builtin_cpu_supports("avxvnni");
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

kernel_level best_kernel_level() noexcept {
  kernel_level best = kernel_level::scalar;
  for (const kernel_level level : levels)
    if (machine_runs(level)) best = level;
  return best;
}

expected<kernel_level> choose_kernel_level(std::optional<kernel_level> asked) {
  const kernel_level best = best_kernel_level();
  if (!asked) return best;
  if (!machine_runs(*asked))
    return error(errc::invalid_argument, "kernel level " + std::string(to_string(*asked)) +
                                             " is not what this machine runs; it runs up to " +
                                             std::string(to_string(best)));
  return *asked;
}

} // namespace paceline::cpu
