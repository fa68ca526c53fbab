#pragma once

#include "runtime/cpu/row_kernels.hpp"
#include "tests/support/paged_sequences.hpp"
#include "tests/support/row_cases.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace paceline::cpu {

const row_kernels& emulated_avx512_row_kernels() noexcept;

struct kernel_level_case {
  const char* name;
  bool (*available)();
  const row_kernels& (*kernels)() noexcept;
};

inline bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
inline bool has_avx512() { return __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"); }

/// A test of every kernel level against the reference.
class row_kernels_test : public testing::TestWithParam<kernel_level_case> {
 protected:
  void SetUp() override {
    if (!GetParam().available()) GTEST_SKIP() << "this machine has no " << GetParam().name;
    const char* const again = std::getenv("PACELINE_ROW_KERNEL_SEED"); // to repeat a failure
    seed_ = again != nullptr ? static_cast<std::uint32_t>(std::stoul(again)) : std::random_device{}();
    RecordProperty("seed", std::to_string(seed_));
    random_.seed(seed_);
  }
  void TearDown() override {
    if (HasFailure()) printf("PACELINE_ROW_KERNEL_SEED=%u\n", seed_);
  }

  const row_kernels& fast() const { return GetParam().kernels(); }
  const row_kernels& reference() const { return reference_row_kernels(); }

  std::vector<float> values(std::size_t n, float deviation = 1) {
    std::normal_distribution<float> normal(0, deviation);
    std::vector<float> x(n);
    for (float& v : x) v = normal(random_);
    if (n > 40) x[n / 3] = 900 * deviation; // an outlier
    return x;
  }

  std::mt19937 random_;

 private:
  std::uint32_t seed_ = 0;
};

/// Stands behind outputs, to show writes beyond their end.
inline constexpr float guard = 12345.678F;

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline const kernel_level_case kernel_levels[] = {{"avx2", has_avx2, avx2_row_kernels},
                                                  {"avx512", has_avx512, avx512_row_kernels},
                                                  {"emulated_avx512", has_avx2, emulated_avx512_row_kernels}};

inline std::string name_of(const testing::TestParamInfo<kernel_level_case>& test) { return test.param.name; }

using test::attention_case;

// Query heads, KV heads, head_dim, block size, KV type, window, soft cap.
inline const attention_case attention_cases[] = {
    {9, 3, 64, 16, kv_type::f16, 0, 0},   {4, 1, 256, 32, kv_type::f16, 70, 0},
    {14, 2, 64, 16, kv_type::f16, 0, 0},  {4, 4, 20, 4, kv_type::f16, 0, 0},
    {6, 2, 80, 48, kv_type::f32, 300, 0}, {2, 1, 8, 5, kv_type::f32, 0, 30},
    {16, 1, 32, 64, kv_type::f16, 7, 50}, {5, 5, 512, 16, kv_type::f16, 0, 0},
    {9, 3, 64, 16, kv_type::bf16, 0, 0},  {6, 2, 20, 5, kv_type::bf16, 70, 30},
    {9, 3, 64, 16, kv_type::q8, 0, 0},    {4, 1, 256, 32, kv_type::q8, 70, 0},
    {6, 2, 20, 5, kv_type::q8, 0, 30},    {14, 2, 80, 48, kv_type::q8, 300, 0},
};

/// A KV pool filled with NaN, so that reading an unwritten cell shows.
struct poisoned_pool {
  poisoned_pool(const attention_case& c, std::uint32_t num_blocks)
      : keys(std::size_t{num_blocks} * c.num_kv_heads * c.head_dim * c.block_size *
                 traits_of(c.type).value_bytes,
             std::byte{0xff}),
        values(keys), key_scales(std::size_t{num_blocks} * c.num_kv_heads * c.block_size,
                                 std::numeric_limits<float>::quiet_NaN()),
        value_scales(key_scales), layer{keys.data(), values.data(),     c.type,
                                        num_blocks,  c.block_size,      c.num_kv_heads,
                                        c.head_dim,  key_scales.data(), value_scales.data()} {}

  std::vector<std::byte> keys, values;
  std::vector<float> key_scales, value_scales;
  device::kv_layer layer;
};

/// Equal to the bit, scales included.
inline void expect_same_cells(const poisoned_pool& expected, const poisoned_pool& pool,
                              const attention_case& c) {
  EXPECT_EQ(expected.keys, pool.keys) << c;
  EXPECT_EQ(expected.values, pool.values) << c;
  EXPECT_TRUE(same_bits(expected.key_scales, pool.key_scales)) << c;
  EXPECT_TRUE(same_bits(expected.value_scales, pool.value_scales)) << c;
}

} // namespace paceline::cpu
