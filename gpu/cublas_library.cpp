#include "gpu/cublas_library.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstring>
#include <memory>

namespace paceline::gpu::cublas {
namespace {

#define PACELINE_TEXT_OF(x) #x
#define PACELINE_VALUE_TEXT(x) PACELINE_TEXT_OF(x)
/// The version whose header this was compiled with: other versions may have other types.
constexpr const char* library_name = "libcublasLt.so." PACELINE_VALUE_TEXT(CUBLAS_VER_MAJOR);

/// The functions of the library that this folder uses; all null if it could not be loaded.
struct functions {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetStatusName) status_name = nullptr;
  decltype(&cublasLtGetStatusString) status_text = nullptr;
  decltype(&cublasLtMatmulDescCreate) make_product = nullptr;
  decltype(&cublasLtMatmulDescDestroy) end_product = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_product = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) make_matrix = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) end_matrix = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) make_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) end_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithms = nullptr;
  decltype(&cublasLtMatmul) multiply = nullptr;
  std::string why_not;
};

template <class Function>
bool find(void* library, const char* name, Function& out) {
  out = reinterpret_cast<Function>(dlsym(library, name));
  return out != nullptr;
}

functions load() {
  functions out;
  void* const library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  const bool is_whole = library != nullptr && find(library, "cublasLtCreate", out.create) &&
                        find(library, "cublasLtDestroy", out.destroy) &&
                        find(library, "cublasLtGetStatusName", out.status_name) &&
                        find(library, "cublasLtGetStatusString", out.status_text) &&
                        find(library, "cublasLtMatmulDescCreate", out.make_product) &&
                        find(library, "cublasLtMatmulDescDestroy", out.end_product) &&
                        find(library, "cublasLtMatmulDescSetAttribute", out.set_product) &&
                        find(library, "cublasLtMatrixLayoutCreate", out.make_matrix) &&
                        find(library, "cublasLtMatrixLayoutDestroy", out.end_matrix) &&
                        find(library, "cublasLtMatmulPreferenceCreate", out.make_preference) &&
                        find(library, "cublasLtMatmulPreferenceDestroy", out.end_preference) &&
                        find(library, "cublasLtMatmulPreferenceSetAttribute", out.set_preference) &&
                        find(library, "cublasLtMatmulAlgoGetHeuristic", out.find_algorithms) &&
                        find(library, "cublasLtMatmul", out.multiply);
  if (is_whole) return out;
  const char* const said = dlerror();
  out = {};
  out.why_not = said != nullptr ? said : library_name;
  return out;
}

/// The library is loaded at the first call and never unloaded.
const functions& library() {
  static const functions loaded = load();
  return loaded;
}

/// If the library fails because the device is lost, the CUDA runtime reports the loss when it is called.
status told(cublasStatus_t outcome) {
  if (outcome == CUBLAS_STATUS_SUCCESS) return 0;
  const cudaError_t below = cudaStreamQuery(cudaStreamPerThread);
  const bool is_lost = below != cudaSuccess && below != cudaErrorNotReady;
  if (is_lost) cudaGetLastError();
  return is_lost ? static_cast<status>(below) : first_status + static_cast<status>(outcome);
}

struct matrix_ending {
  void operator()(cublasLtMatrixLayout_t m) const { library().end_matrix(m); }
};
struct product_ending {
  void operator()(cublasLtMatmulDesc_t p) const { library().end_product(p); }
};
struct preference_ending {
  void operator()(cublasLtMatmulPreference_t p) const { library().end_preference(p); }
};
using owned_matrix = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>, matrix_ending>;
using owned_product = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, product_ending>;
using owned_preference =
    std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, preference_ending>;

/// A product's shape as descriptors of the library.
struct described_product {
  owned_product product;
  owned_matrix a, b, d;
};

cublasStatus_t describe(const blas_matrix& from, owned_matrix& out) {
  cublasLtMatrixLayout_t made = nullptr;
  const auto outcome =
      library().make_matrix(&made, from.type == blas_type::f16 ? CUDA_R_16F : CUDA_R_32F, from.num_rows,
                            from.num_cols, static_cast<std::int64_t>(from.stride));
  out.reset(made);
  return outcome;
}

cublasStatus_t describe(const blas_product& from, described_product& out) {
  cublasLtMatmulDesc_t made = nullptr;
  auto outcome = library().make_product(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  out.product.reset(made);
  const cublasOperation_t of_a = from.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  if (outcome == CUBLAS_STATUS_SUCCESS)
    outcome = library().set_product(made, CUBLASLT_MATMUL_DESC_TRANSA, &of_a, sizeof of_a);
  if (outcome == CUBLAS_STATUS_SUCCESS) outcome = describe(from.a, out.a);
  if (outcome == CUBLAS_STATUS_SUCCESS) outcome = describe(from.b, out.b);
  if (outcome == CUBLAS_STATUS_SUCCESS) outcome = describe(from.d, out.d);
  return outcome;
}

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(blas_algorithm));

} // namespace

status create(raw_blas& out) {
  if (library().create == nullptr) return not_there;
  cublasLtHandle_t made = nullptr;
  const auto outcome = library().create(&made);
  out = made;
  return told(outcome);
}

status destroy(raw_blas blas) { return told(library().destroy(static_cast<cublasLtHandle_t>(blas))); }

status choose_algorithm(blas_algorithm& out, raw_blas blas, const blas_product& product,
                        std::size_t workspace_bytes) {
  described_product described;
  if (const auto outcome = describe(product, described); outcome != CUBLAS_STATUS_SUCCESS)
    return told(outcome);
  cublasLtMatmulPreference_t made = nullptr;
  auto outcome = library().make_preference(&made);
  const owned_preference preference(made);
  // All other settings, such as an alignment to 256 bytes, keep their defaults.
  if (outcome == CUBLAS_STATUS_SUCCESS)
    outcome = library().set_preference(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                       sizeof workspace_bytes);
  cublasLtMatmulHeuristicResult_t best{};
  int num_found = 0;
  if (outcome == CUBLAS_STATUS_SUCCESS)
    outcome = library().find_algorithms(static_cast<cublasLtHandle_t>(blas), described.product.get(),
                                        described.a.get(), described.b.get(), described.d.get(),
                                        described.d.get(), made, 1, &best, &num_found);
  if (outcome == CUBLAS_STATUS_SUCCESS && num_found == 0) outcome = CUBLAS_STATUS_NOT_SUPPORTED;
  if (outcome == CUBLAS_STATUS_SUCCESS) outcome = best.state;
  if (outcome == CUBLAS_STATUS_SUCCESS) std::memcpy(out.bits, &best.algo, sizeof out.bits);
  return told(outcome);
}

status multiply(raw_blas blas, const blas_command& c, raw_stream stream) {
  described_product described;
  if (const auto outcome = describe(c.product, described); outcome != CUBLAS_STATUS_SUCCESS)
    return told(outcome);
  cublasLtMatmulAlgo_t by;
  std::memcpy(&by, c.by.bits, sizeof by);
  const float one = 1, zero = 0; // on the host; read at the call
  return told(library().multiply(static_cast<cublasLtHandle_t>(blas), described.product.get(), &one, c.a,
                                 described.a.get(), c.b, described.b.get(), &zero, c.d, described.d.get(),
                                 c.d, described.d.get(), &by, c.workspace, c.workspace_bytes,
                                 static_cast<cudaStream_t>(stream)));
}

std::optional<std::string> describe(status failure) {
  if (failure < first_status) return std::nullopt;
  if (failure == not_there) return "fast mode needs " + std::string(library_name) + ": " + library().why_not;
  const auto code = static_cast<cublasStatus_t>(failure - first_status);
  return std::string(library().status_text(code)) + " (" + library().status_name(code) + ", " +
         std::to_string(failure - first_status) + ")";
}

failure_kind kind_of(status failure) noexcept {
  return failure == first_status + CUBLAS_STATUS_ALLOC_FAILED ? failure_kind::out_of_memory
                                                              : failure_kind::other;
}

} // namespace paceline::gpu::cublas
