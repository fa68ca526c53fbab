#include "runtime/cpu/kernel_level.hpp"

#include <string>

namespace paceline::cpu {

std::string_view to_string(kernel_level level) noexcept {
  switch (level) {
  case kernel_level::scalar:
    return "scalar";
  case kernel_level::avx2:
    return "avx2";
  case kernel_level::avx512_vnni:
    return "avx512vnni";
  }
  return "unknown";
}

std::optional<kernel_level> parse_kernel_level(std::string_view name) noexcept {
  for (const auto level : {kernel_level::scalar, kernel_level::avx2, kernel_level::avx512_vnni})
    if (name == to_string(level)) return level;
  return std::nullopt;
}

kernel_level best_kernel_level() noexcept {
#if defined(__x86_64__)
  // The compiler's run-time library asks the operating system as well as the processor.
  __builtin_cpu_init();
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vnni");
  if (avx2 && avx512) return kernel_level::avx512_vnni;
  if (avx2) return kernel_level::avx2;
#endif
  return kernel_level::scalar;
}

expected<kernel_level> choose_kernel_level(std::optional<kernel_level> asked) {
  const kernel_level best = best_kernel_level();
  if (!asked) return best;
  if (*asked > best)
    return error(errc::invalid_argument,
                 "kernel level " + std::string(to_string(*asked)) +
                     " is above what this machine runs: " + std::string(to_string(best)));
  return *asked;
}

} // namespace paceline::cpu
