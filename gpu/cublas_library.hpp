#pragma once

#include "gpu/runtime_api.hpp"

#include <optional>
#include <string>

// cuBLASLt of this machine, for the real device's runtime. The library, half a gigabyte that only fast mode
// needs, is no dependency of the program: it is looked for at the first call.

namespace paceline::gpu::cublas {

/// Statuses of ours begin here: those of the CUDA runtime are smaller.
inline constexpr status first_status = 20000;
/// This machine has no cuBLASLt of the version that was built for.
inline constexpr status not_there = first_status + 1000;

// As in runtime_api.

status create(raw_blas& out);
status destroy(raw_blas blas);
status choose_algorithm(blas_algorithm& out, raw_blas blas, const blas_product& product,
                        std::size_t workspace_bytes);
status multiply(raw_blas blas, const blas_command& command, raw_stream stream);
/// None for a status of the CUDA runtime's.
std::optional<std::string> describe(status failure);
failure_kind kind_of(status failure) noexcept;

} // namespace paceline::gpu::cublas
