#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/device/matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace paceline::cpu {

class weight_arena;

/// Weights in the layout of the CPU's kernels: tiles of 16 rows (packed_layout.hpp); rows that pad the last
/// tile are zero. F32, F16 and BF16 keep their elements, column after column of the tile. F8_E4M3 has, for
/// each 64 columns, the scales of the tile's 16 rows and then the codes, column after column.
class packed_matrix final : public device::matrix {
 public:
  device::tensor_type type() const noexcept override { return type_; }
  std::uint32_t num_rows() const noexcept override { return num_rows_; }
  std::uint32_t num_cols() const noexcept override { return num_cols_; }
  std::uint64_t size_bytes() const noexcept override { return num_tiles() * std::uint64_t{tile_bytes_}; }

  std::uint32_t num_tiles() const noexcept { return (num_rows_ + 15) / 16; }
  std::size_t tile_bytes() const noexcept { return tile_bytes_; }
  const std::byte* tile(std::uint32_t index) const noexcept { return bytes_.get() + index * tile_bytes_; }

  /// Writes the values of row `row` < num_rows() to out[num_cols()].
  void dequantize_row(std::uint32_t row, std::span<float> out) const;

 private:
  friend expected<std::unique_ptr<const device::matrix>>
  pack_matrix(std::string_view name, const device::tensor_view& tensor, weight_arena& arena,
              const device::bytes_done& done, const device::bytes_needed& needed);
  packed_matrix() = default;

  void pack_tile(const device::tensor_view& tensor, std::uint32_t index, std::byte* bytes);
  void pack_quantised_row(const std::byte* stored, std::byte* tile, std::uint32_t row);

  device::tensor_type type_ = device::tensor_type::f32;
  std::uint32_t num_rows_ = 0;
  std::uint32_t num_cols_ = 0;
  std::size_t tile_bytes_ = 0;
  std::shared_ptr<const std::byte[]> bytes_;
};

/// Packs `tensor` into memory of `arena`; see device::weight_memory::pack.
expected<std::unique_ptr<const device::matrix>>
pack_matrix(std::string_view name, const device::tensor_view& tensor, weight_arena& arena,
            const device::bytes_done& done = {}, const device::bytes_needed& needed = {});

} // namespace paceline::cpu
