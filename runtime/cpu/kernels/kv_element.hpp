#pragma once

#include "runtime/device/float16.hpp"
#include "runtime/device/op_kv.hpp"

#include <cstdint>

namespace paceline::cpu {
namespace {

/// Calls `fn` with a value of the C++ type in which a KV pool of `type` stores elements, so that `fn` can use
/// that type.
template <class Fn>
void with_element(kv_type type, const Fn& fn) {
  switch (type) {
  case kv_type::f16:
    return fn(std::uint16_t());
  case kv_type::f32:
    return fn(float());
  case kv_type::bf16:
    return fn(device::bfloat16());
  case kv_type::q8:
    return fn(std::int8_t());
  }
}

/// True if elements of type T are integer codes. A pool of codes has one scale for each cell and head.
template <class T>
inline constexpr bool is_code = false;
template <>
inline constexpr bool is_code<std::int8_t> = true;

} // namespace
} // namespace paceline::cpu
