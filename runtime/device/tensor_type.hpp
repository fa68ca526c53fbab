#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace paceline::device {

/// Element formats of stored tensors. Values are GGML's type numbers, as in GGUF files, except formats that
/// GGML does not have: these start at `first_foreign_type`.
enum class tensor_type : std::uint8_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq4_nl = 20,
  iq4_xs = 23,
  bf16 = 30,
  f8_e4m3 = 128,
};
inline constexpr std::uint8_t first_foreign_type = 128;

/// How a format stores the values of a row.
struct tensor_type_traits {
  std::string_view name;
  std::uint32_t block_values; ///< values in one block; rows consist of whole blocks
  std::uint32_t block_bytes;
};

/// Traits of `type`; nullopt for a number that is not a supported format.
constexpr std::optional<tensor_type_traits> traits_of(tensor_type type) noexcept {
  switch (type) {
  case tensor_type::f32:
    return tensor_type_traits{"F32", 1, 4};
  case tensor_type::f16:
    return tensor_type_traits{"F16", 1, 2};
  case tensor_type::bf16:
    return tensor_type_traits{"BF16", 1, 2};
  case tensor_type::q4_0:
    return tensor_type_traits{"Q4_0", 32, 18};
  case tensor_type::q4_1:
    return tensor_type_traits{"Q4_1", 32, 20};
  case tensor_type::q5_0:
    return tensor_type_traits{"Q5_0", 32, 22};
  case tensor_type::q5_1:
    return tensor_type_traits{"Q5_1", 32, 24};
  case tensor_type::q8_0:
    return tensor_type_traits{"Q8_0", 32, 34};
  case tensor_type::q2_k:
    return tensor_type_traits{"Q2_K", 256, 84};
  case tensor_type::q3_k:
    return tensor_type_traits{"Q3_K", 256, 110};
  case tensor_type::q4_k:
    return tensor_type_traits{"Q4_K", 256, 144};
  case tensor_type::q5_k:
    return tensor_type_traits{"Q5_K", 256, 176};
  case tensor_type::q6_k:
    return tensor_type_traits{"Q6_K", 256, 210};
  case tensor_type::iq4_nl:
    return tensor_type_traits{"IQ4_NL", 32, 18};
  case tensor_type::iq4_xs:
    return tensor_type_traits{"IQ4_XS", 256, 136};
  case tensor_type::f8_e4m3:
    return tensor_type_traits{"F8_E4M3", 64, 68};
  }
  return std::nullopt;
}

/// True if products use the values of `type` as floating-point numbers. Other types are quantised: integer
/// codes and scales (runtime/device/stored_block.hpp).
constexpr bool is_floating(tensor_type type) noexcept {
  return type == tensor_type::f32 || type == tensor_type::f16 || type == tensor_type::bf16 ||
         type == tensor_type::f8_e4m3;
}

} // namespace paceline::device
