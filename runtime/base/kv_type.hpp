#pragma once

#include <cstdint>
#include <string_view>

namespace paceline {

/// Element type of stored keys and values.
enum class kv_type : std::uint8_t {
  f16,  ///< IEEE half precision
  f32,  ///< float32
  bf16, ///< bfloat16
  q8,   ///< int8 codes with one float32 scale for each token and key-value head, separate for keys and values
};

struct kv_type_traits {
  std::string_view name;     ///< name in the option `kv.dtype`
  std::uint32_t value_bytes; ///< bytes of one value or code
  std::uint32_t scale_bytes; ///< bytes of the scale that the values of one head in one cell share; 0: none
};

constexpr kv_type_traits traits_of(kv_type type) noexcept {
  switch (type) {
  case kv_type::f32:
    return {"f32", 4, 0};
  case kv_type::bf16:
    return {"bf16", 2, 0};
  case kv_type::q8:
    return {"q8", 1, 4};
  case kv_type::f16:
    break;
  }
  return {"f16", 2, 0};
}

/// Bytes of the key of one head in one cell, or of its value.
constexpr std::uint64_t kv_head_bytes(kv_type type, std::uint32_t head_dim) noexcept {
  const kv_type_traits traits = traits_of(type);
  return std::uint64_t{traits.value_bytes} * head_dim + traits.scale_bytes;
}

} // namespace paceline
