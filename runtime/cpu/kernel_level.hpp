#pragma once

#include "runtime/base/expected.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace paceline::cpu {

/// Instruction sets for which kernels are written. All levels give the same bits if the op's contract says
/// so.
enum class kernel_level : std::uint8_t {
  scalar,      ///< plain C++
  avx2,        ///< AVX2, FMA, F16C
  avx_vnni,    ///< AVX-VNNI, and avx2
  avx512_vnni, ///< AVX-512 F, BW, VL, DQ, VNNI, and avx2
};

std::string_view to_string(kernel_level level) noexcept;

/// The level with this name ("scalar", "avx2", "avx_vnni", "avx512vnni").
std::optional<kernel_level> parse_kernel_level(std::string_view name) noexcept;

/// True if this machine and its operating system can run `level`. A machine that runs a level need not run
/// the lower ones: Zen 4 has AVX-512 VNNI and no AVX-VNNI.
bool machine_runs(kernel_level level) noexcept;

/// The highest level this machine can run.
kernel_level best_kernel_level() noexcept;

/// `asked`, or the best level if none is given. Error: `invalid_argument` if the machine cannot run it.
expected<kernel_level> choose_kernel_level(std::optional<kernel_level> asked);

} // namespace paceline::cpu
