#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/model/loader/hugging_face/safetensors_file.hpp"

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

// Checkpoints with FP8 (E4M3) weights: codes in one tensor, their scales in another. Scales of activations in
// such checkpoints are not used, because activations are not quantised to FP8.

/// Description of the weights in a config.json.
struct fp8_quantisation {
  /// Rows and columns that share a scale; 0: one scale for each row or each matrix.
  std::uint64_t block_rows = 0;
  std::uint64_t block_cols = 0;
};

/// Reads "quantization_config" of a config.json, which errors call `file`: quant_method "fp8", or
/// "compressed-tensors" with float weights of 8 bits. In the config of a model with several parts, the key
/// may be at the top level or in "text_config". nullopt if the key is absent. Any other method is an error
/// that names the method.
expected<std::optional<fp8_quantisation>> read_fp8_quantisation(const boost::json::object& config,
                                                                const std::string& file);

/// The scales of a matrix. Row r and column c have the scale
/// values[r / block_rows * num_cols + c / block_cols].
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
/// block_cols)] with blocks, otherwise a single value, [rows] or [rows][1]. Errors name file, tensor and
/// rule.
expected<scale_grid> read_scale_grid(const safetensors_tensor& weight, const safetensors_tensor& scales,
                                     const fp8_quantisation& quantisation, std::string_view file);

/// The tensor names of the scales of "x.weight": "x.weight_scale_inv" and "x.weight_scale". Both are factors.
inline constexpr std::string_view fp8_scale_suffixes[] = {"_scale_inv", "_scale"};

/// True if `name` is a scale of activations or KV cells, which is not used.
bool is_unused_fp8_scale(std::string_view name) noexcept;

/// Converts a view with scales to blocks of device::tensor_type::f8_e4m3, row after row.
std::vector<std::byte> f8_blocks(const weight_view& view);

} // namespace paceline::model
