#pragma once

#include "runtime/base/kv_type.hpp"

#include <cstdint>
#include <limits>
#include <ostream>
#include <vector>

/// Inputs for tests of the row kernels of every device.
namespace paceline::test {

/// A shape of attention, of its pool and of its mask.
struct attention_case {
  std::uint32_t num_heads, num_kv_heads, head_dim, block_size;
  kv_type type;
  std::uint32_t window; ///< positions that a row sees, its own included; 0: all
  float soft_cap;       ///< of scores; 0: none
};

inline std::ostream& operator<<(std::ostream& out, const attention_case& c) {
  return out << c.num_heads << '/' << c.num_kv_heads << " heads of " << c.head_dim << ", blocks of "
             << c.block_size << ' ' << traits_of(c.type).name << ", window " << c.window << ", cap "
             << c.soft_cap;
}

/// Zeros, infinity, a subnormal, and values on both sides of overflow and underflow of exponentials.
inline std::vector<float> special_gates() {
  return {0.0F,   -0.0F,  std::numeric_limits<float>::infinity(),
          88.3F,  88.4F,  -88.3F,
          -88.4F, 87.2F,  87.4F,
          -87.2F, -87.4F, 1e-40F,
          104.0F, -104.0F};
}

} // namespace paceline::test
