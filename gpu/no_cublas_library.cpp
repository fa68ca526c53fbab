// A build without the headers of cuBLASLt.
#include "gpu/cublas_library.hpp"

namespace paceline::gpu::cublas {

status create(raw_blas&) { return not_there; }
status destroy(raw_blas) { return not_there; }
status choose_algorithm(blas_algorithm&, raw_blas, const blas_product&, std::size_t) { return not_there; }
status multiply(raw_blas, const blas_command&, raw_stream) { return not_there; }

std::optional<std::string> describe(status failure) {
  if (failure != not_there) return std::nullopt;
  return "this build has no fast mode (it was configured without cublasLt.h)";
}

failure_kind kind_of(status) noexcept { return failure_kind::other; }

} // namespace paceline::gpu::cublas
