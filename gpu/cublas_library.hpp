#pragma once

#include "gpu/runtime_api.hpp"

#include <optional>
#include <string>

// cuBLASLt for the real device's runtime. The program does not link this library, which has half a gigabyte
// and is only needed in fast mode: it is loaded at the first call.

namespace paceline::gpu::cublas {

/// Our own status numbers begin here; those of the CUDA runtime are smaller.
inline constexpr status first_status = 20000;
/// This machine does not have the version of cuBLASLt for which the program was built.
inline constexpr status not_there = first_status + 1000;

// The functions below are those of runtime_api.

status create(raw_blas& out);
status destroy(raw_blas blas);
status choose_algorithm(blas_algorithm& out, raw_blas blas, const blas_product& product,
                        std::size_t workspace_bytes);
status multiply(raw_blas blas, const blas_command& command, raw_stream stream);
/// nullopt for a status of the CUDA runtime.
std::optional<std::string> describe(status failure);
failure_kind kind_of(status failure) noexcept;

} // namespace paceline::gpu::cublas
