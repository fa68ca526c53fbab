#pragma once

#include "gpu/runtime_api.hpp"

#include <optional>
#include <string>

// cuBLASLt for `cuda_runtime`. The library has half a gigabyte and is only needed in fast mode, so the
// program does not link it but loads it at the first call.

namespace paceline::gpu::cublas {

/// Statuses of cuBLASLt are returned as this number plus cuBLASLt's own number; statuses of the CUDA runtime
/// are smaller.
inline constexpr status first_status = 20000;
/// This machine does not have the version of cuBLASLt for which the program was built.
inline constexpr status not_there = first_status + 1000;

// The following functions implement those of runtime_api.

status create(raw_blas& out);
status destroy(raw_blas blas);
status choose_algorithm(blas_algorithm& out, raw_blas blas, const blas_product& product,
                        std::size_t workspace_bytes);
status multiply(raw_blas blas, const blas_command& command, raw_stream stream);
/// nullopt for a status of the CUDA runtime.
std::optional<std::string> describe(status failure);
failure_kind kind_of(status failure) noexcept;

} // namespace paceline::gpu::cublas
