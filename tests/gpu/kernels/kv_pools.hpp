#pragma once

#include "runtime/cpu/row_kernels.hpp"
#include "tests/gpu/tested_device.hpp"
#include "tests/support/paged_sequences.hpp"
#include "tests/support/row_cases.hpp"

#include <limits>

namespace paceline::gpu {

using test::attention_case;

/// A pool filled with NaN on the host, and a copy on the GPU. Arrays consist of whole floats, so that they
/// can be downloaded.
class two_pools {
 public:
  two_pools(const attention_case& c, std::uint32_t num_blocks)
      : keys_(std::size_t{num_blocks} * c.num_kv_heads * c.head_dim * c.block_size *
                  traits_of(c.type).value_bytes,
              std::byte{0xff}),
        values_(keys_), scales_(std::size_t{2} * num_blocks * c.num_kv_heads * c.block_size,
                                std::numeric_limits<float>::quiet_NaN()),
        shape_{nullptr, nullptr, c.type, num_blocks, c.block_size, c.num_kv_heads, c.head_dim} {}

  /// The arrays of a copied pool.
  device::kv_layer here() {
    device::kv_layer layer = shape_;
    layer.keys = keys_.data();
    layer.values = values_.data();
    layer.key_scales = scales_.data();
    layer.value_scales = scales_.data() + scales_.size() / 2;
    return layer;
  }
  std::vector<std::byte>& keys() { return keys_; }
  std::vector<std::byte>& values() { return values_; }
  std::vector<float>& scales() { return scales_; }

 private:
  std::vector<std::byte> keys_, values_;
  std::vector<float> scales_;
  device::kv_layer shape_;
};

/// Base of tests for ops on KV pools.
class kv_pool_test : public gpu_test {
 protected:
  explicit kv_pool_test(arithmetic products) : gpu_test(products) {}

  /// The layer of `pools` with the current contents of the GPU's arrays.
  device::kv_layer there(two_pools& pools) {
    device::kv_layer layer = pools.here();
    layer.keys = upload(pools.keys());
    layer.values = upload(pools.values());
    layer.key_scales = upload(pools.scales());
    layer.value_scales = layer.key_scales + pools.scales().size() / 2;
    return layer;
  }

  void expect_equal(two_pools& pools, const device::kv_layer& layer, const attention_case& c) {
    EXPECT_EQ(pools.keys(), download(static_cast<const std::byte*>(layer.keys), pools.keys().size())) << c;
    EXPECT_EQ(pools.values(), download(static_cast<const std::byte*>(layer.values), pools.values().size()))
        << c;
    const auto scales = download(layer.key_scales, pools.scales().size());
    EXPECT_EQ(std::memcmp(scales.data(), pools.scales().data(), scales.size() * sizeof(float)), 0) << c;
  }

  /// Fills every slot of every sequence with random keys and values.
  void fill(two_pools& pools, test::paged_sequences& paged, const attention_case& c) {
    const std::size_t stride = std::size_t{c.num_kv_heads} * c.head_dim;
    for (std::uint32_t s = 0; s < paged.num_sequences(); ++s) {
      const auto rows = paged.every_slot(s);
      const auto keys = values(rows.size() * stride), x = values(rows.size() * stride);
      const auto batch = paged.batch(rows);
      cpu::reference_row_kernels().kv_write({&batch, pools.here(), keys.data(), x.data(), stride},
                                            {0, static_cast<std::uint32_t>(rows.size())});
    }
  }
};

} // namespace paceline::gpu
