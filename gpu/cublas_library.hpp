#pragma once

#include "gpu/runtime_api.hpp"

#include <optional>
#include <string>

// cuBLASLt for `cuda_runtime`. The library is about half a gigabyte large, and only fast mode needs it. So
// the program does not link it: the first call of `create` loads it, and it stays loaded.

namespace paceline::gpu::cublas {

/// Statuses of cuBLASLt are returned as this number plus cuBLASLt's own number; statuses of the CUDA runtime
/// are smaller.
inline constexpr status first_status = 20000;
/// Returned by `create` if the library, with the major version for which the program was built, cannot be
/// loaded or lacks a function. `describe` says why.
inline constexpr status not_there = first_status + 1000;

// `create`, `destroy`, `choose_algorithm` and `multiply` implement `make_blas`, `end_blas`,
// `choose_algorithm` and `multiply` of runtime_api, with the same meaning and thread rules. All but `create`
// may be called only after `create` has succeeded. A status below `first_status` comes from the CUDA runtime.

status create(raw_blas& out);
status destroy(raw_blas blas);
status choose_algorithm(blas_algorithm& out, raw_blas blas, const blas_product& product,
                        std::size_t workspace_bytes);
status multiply(raw_blas blas, const blas_command& command, raw_stream stream);
/// The meaning of a status of cuBLASLt, for messages; nullopt for a status of the CUDA runtime.
std::optional<std::string> describe(status failure);
/// For statuses from `first_status` on: `out_of_memory` if cuBLASLt could not allocate, else `other`.
failure_kind kind_of(status failure) noexcept;

} // namespace paceline::gpu::cublas
