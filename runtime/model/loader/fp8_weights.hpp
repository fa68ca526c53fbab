#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/model/loader/safetensors_file.hpp"

#include <boost/json/fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::model {

struct weight_view;

// Checkpoints with weights of FP8 (E4M3): codes in one tensor, what they are to be multiplied by in another.
// The scales of activations that such checkpoints may have are not used: activations here have 16 bits or
// more.

/// What a config.json says of them.
struct fp8_quantisation {
  /// Rows and columns that share a scale; 0: each row or each matrix has one.
  std::uint64_t block_rows = 0;
  std::uint64_t block_cols = 0;
};

/// "quantization_config" of a config.json called `file`: quant_method "fp8", or "compressed-tensors" with
/// float weights of 8 bits. None where there is none; every other method is refused by name.
expected<std::optional<fp8_quantisation>> read_fp8_quantisation(const boost::json::object& config,
                                                                const std::string& file);

/// What the codes of a matrix are multiplied by: that of row r and column c is values[r / block_rows *
/// num_cols + c / block_cols].
struct scale_grid {
  std::vector<float> values; ///< finite, below 2^100 in magnitude
  std::uint64_t num_cols = 1;
  std::uint64_t block_rows = 1;
  std::uint64_t block_cols = 1; ///< whole blocks of device::tensor_type::f8_e4m3, or all columns

  float at(std::uint64_t row, std::uint64_t col) const noexcept {
    return values[row / block_rows * num_cols + col / block_cols];
  }
};

/// Reads the scales of `weight`, an F8_E4M3 matrix of `file`: [ceil(rows / block_rows)][ceil(columns /
/// block_cols)] with blocks, else one in all, [rows] or [rows][1]. Errors name file, tensor and rule.
expected<scale_grid> read_scale_grid(const safetensors_tensor& weight, const safetensors_tensor& scales,
                                     const fp8_quantisation& quantisation, std::string_view file);

/// The tensor names under which scales of "x.weight" are looked for: "x.weight_scale_inv" and
/// "x.weight_scale". Both multiply.
inline constexpr std::string_view fp8_scale_suffixes[] = {"_scale_inv", "_scale"};

/// Whether `name` is a scale of activations or KV cells, which nothing here uses.
bool is_unused_fp8_scale(std::string_view name) noexcept;

/// The matrix of a view with scales as blocks of device::tensor_type::f8_e4m3, row after row.
std::vector<std::byte> f8_blocks(const weight_view& view);

} // namespace paceline::model
