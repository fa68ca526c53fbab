#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/device/tensor_type.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::model {

/// Outermost first, with ones after the last dimension. Filters over time in vision parts have 5 dimensions.
using safetensors_shape = std::array<std::uint64_t, 5>;

/// One entry of a safetensors header.
struct safetensors_entry {
  std::string name;
  safetensors_shape shape{1, 1, 1, 1, 1};
  std::uint64_t begin = 0; ///< relative to the tensor data
  std::uint64_t end = 0;
  std::uint32_t num_dims = 0;
  device::tensor_type type = device::tensor_type::f32;
  /// Not 0: the values are integers of this many bytes (I64: 8, BOOL: 1), and `type` has no meaning. Such
  /// tensors are tables, not weights.
  std::uint8_t integer_bytes = 0;
};

/// Bytes of one value of a tensor in a safetensors file. For F8_E4M3 the value is a code; the scales are in
/// another tensor.
constexpr std::uint64_t bytes_of_value(device::tensor_type type) noexcept {
  return type == device::tensor_type::f8_e4m3 ? 1 : type == device::tensor_type::f32 ? 4 : 2;
}

/// The entries of a header, in order, with unique names; "__metadata__" is checked and dropped. Offsets are
/// not checked here. Reads without building a document, so memory stays below four times the header's size.
/// Errors name `file`, tensor and rule.
expected<std::vector<safetensors_entry>> parse_safetensors_header(std::string_view text,
                                                                  std::string_view file);

} // namespace paceline::model
