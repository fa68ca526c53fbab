#include "gpu/emulation/blas_model.hpp"

#include "runtime/device/float16.hpp"

#include <cstring>
#include <vector>

namespace paceline::gpu::emulation {
namespace {

constexpr std::size_t word_bytes = 16;
constexpr std::uintptr_t memory_alignment = 256;

bool is_sound(const blas_matrix& m, blas_type type) noexcept {
  const std::size_t value_bytes = type == blas_type::f16 ? 2 : 4;
  return m.type == type && m.num_rows != 0 && m.num_cols != 0 && m.stride >= m.num_rows &&
         m.stride * value_bytes % word_bytes == 0;
}

bool is_aligned(const void* at) noexcept {
  return at != nullptr && reinterpret_cast<std::uintptr_t>(at) % memory_alignment == 0;
}

/// The columns, packed: without the gaps between them.
std::vector<float> columns_of(const blas_matrix& m, const void* at) {
  std::vector<float> out;
  out.reserve(m.num_rows * m.num_cols);
  const auto* const halves = static_cast<const std::uint16_t*>(at);
  for (std::uint64_t c = 0; c < m.num_cols; ++c)
    for (std::uint64_t r = 0; r < m.num_rows; ++r)
      out.push_back(device::float_of_f16(halves[c * m.stride + r]));
  return out;
}

float sum_of_products(const float* a, std::uint64_t step, const float* b, std::uint64_t num_terms,
                      std::uint64_t num_chains) {
  float sum = 0;
  for (std::uint64_t chain = 0; chain < num_chains; ++chain) {
    float of_chain = 0;
    for (std::uint64_t from_end = chain; from_end < num_terms; from_end += num_chains) {
      const std::uint64_t k = num_terms - 1 - from_end;
      of_chain += a[k * step] * b[k];
    }
    sum += of_chain;
  }
  return sum;
}

} // namespace

bool is_sound(const blas_product& p) noexcept {
  if (!is_sound(p.a, blas_type::f16) || !is_sound(p.b, blas_type::f16) || !is_sound(p.d, blas_type::f32))
    return false;
  const std::uint64_t rows = p.transpose_a ? p.a.num_cols : p.a.num_rows;
  const std::uint64_t inner = p.transpose_a ? p.a.num_rows : p.a.num_cols;
  return rows == p.d.num_rows && inner == p.b.num_rows && p.b.num_cols == p.d.num_cols;
}

blas_algorithm algorithm_of(const blas_product& p) noexcept {
  return {{p.d.num_rows, p.d.num_cols, p.b.num_rows, p.a.stride, p.b.stride, p.d.stride,
           p.transpose_a ? 1U : 0U, 0xB1A5}};
}

bool is_sound(const blas_command& c) noexcept {
  const blas_algorithm expected = algorithm_of(c.product);
  return is_sound(c.product) && std::memcmp(&expected, &c.by, sizeof expected) == 0 && is_aligned(c.a) &&
         is_aligned(c.b) && is_aligned(c.d) && is_aligned(c.workspace);
}

void multiply(const blas_command& c) {
  const blas_product& p = c.product;
  std::memset(c.workspace, 0xff, c.workspace_bytes);
  const std::vector<float> a = columns_of(p.a, c.a), b = columns_of(p.b, c.b);
  const std::uint64_t num_chains = 2 + p.d.num_cols % 5;
  const std::uint64_t of_row = p.transpose_a ? p.a.num_rows : 1, step = p.transpose_a ? 1 : p.a.num_rows;
  auto* const d = static_cast<float*>(c.d);
  for (std::uint64_t col = 0; col < p.d.num_cols; ++col)
    for (std::uint64_t row = 0; row < p.d.num_rows; ++row)
      d[col * p.d.stride + row] = sum_of_products(a.data() + row * of_row, step,
                                                  b.data() + col * p.b.num_rows, p.b.num_rows, num_chains);
}

} // namespace paceline::gpu::emulation
