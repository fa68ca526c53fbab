// Attention and KV cells of a GPU have the bits of the reference, over trees, windows, groups and types.
#include "tests/gpu/kernels/kv_pools.hpp"
#include "tests/support/tensor_compare.hpp"

namespace paceline::gpu {
namespace {

using test::same_bits;

constexpr float guard = 12345.678F;

const attention_case attention_cases[] = {
    {3, 3, 64, 16, kv_type::f16, 0, 0},   {4, 1, 256, 32, kv_type::f16, 70, 0},
    {4, 4, 20, 4, kv_type::f16, 0, 0},    {6, 2, 80, 48, kv_type::f32, 300, 0},
    {2, 1, 8, 5, kv_type::f32, 0, 30},    {8, 1, 32, 64, kv_type::f16, 7, 50},
    {2, 2, 512, 16, kv_type::f16, 0, 0},  {3, 1, 64, 16, kv_type::bf16, 0, 0},
    {6, 2, 20, 5, kv_type::bf16, 70, 30}, {3, 1, 64, 16, kv_type::q8, 0, 0},
    {4, 1, 256, 32, kv_type::q8, 70, 0},  {6, 2, 20, 5, kv_type::q8, 0, 30},
};

class gpu_attention : public kv_pool_test {
 protected:
  gpu_attention() : kv_pool_test(arithmetic::reference) {}
};

TEST_F(gpu_attention, kv_write_equals_the_reference) {
  for (const attention_case& c : attention_cases) {
    test::paged_sequences paged(c.block_size, 40, random_());
    paged.add_sequence(3 * c.block_size + 2);
    paged.add_sequence(2);
    auto rows = paged.chain_rows(0, 0, 3 * c.block_size + 2);
    for (const auto& row : paged.chain_rows(1, 0, 2)) rows.push_back(row);
    const std::size_t stride = std::size_t{c.num_kv_heads} * c.head_dim * 2 + 3;
    auto x = values(rows.size() * stride);
    const std::size_t of_values = stride / 2;
    x[1] = 70000.0F; // beyond half precision
    x[2] = 1e-7F;    // subnormal there
    x[stride] = std::numeric_limits<float>::infinity();
    x[stride + of_values + 2] = -std::numeric_limits<float>::quiet_NaN();
    x[2 * stride + 1] = std::numeric_limits<float>::max(); // bfloat16 rounds it to infinity
    x[2 * stride + 2] = 1e-42F;                            // subnormal everywhere
    for (std::uint32_t d = 0; d < c.head_dim; ++d) {
      x[3 * stride + d] = 0x1.fp-101F;                            // below the range of codes
      x[3 * stride + of_values + d] = d == 1 ? -0x1p-100F : 0.0F; // the smallest in the range
    }
    two_pools pools(c, 40);
    const device::kv_layer layer = there(pools);
    const auto batch = paged.batch(rows);
    cpu::reference_row_kernels().kv_write({&batch, pools.here(), x.data(), x.data() + of_values, stride},
                                          {0, static_cast<std::uint32_t>(rows.size())});
    const float* const x_there = upload(x);
    run([&](device::ops& ops) { ops.kv_write({&batch, layer, x_there, x_there + of_values, stride}); });
    expect_equal(pools, layer, c);
  }
}

TEST_F(gpu_attention, kv_copy_moves_cells_of_every_type_in_order) {
  for (const attention_case& c : attention_cases) {
    test::paged_sequences paged(c.block_size, 8, random_());
    paged.add_sequence(3 * c.block_size);
    two_pools pools(c, 8);
    fill(pools, paged, c);
    const device::kv_layer layer = there(pools);
    // Copies: the last cells of a block to the first of another, cells further on, and overlapping ones
    // within a block.
    std::vector<device::kv_copy> copies{
        paged.copy_of(0, 1, c.block_size), paged.copy_of(0, c.block_size, 2 * c.block_size + 1),
        paged.copy_of(0, 2 * c.block_size, 2 * c.block_size + 1), paged.copy_of(0, 1, 0)};
    for (auto& copy : copies) copy.num_cells = c.block_size - 1;
    for (const auto& copy : copies) {
      const two_pools before = pools;
      for (std::uint32_t i = 0; i < copy.num_cells; ++i) { // with the result of a copy through a buffer
        const auto move = [&](std::vector<std::byte>& to, const std::vector<std::byte>& from, auto index,
                              std::size_t size) {
          std::memcpy(&to[index(copy.to_block, copy.to_offset + i) * size],
                      &from[index(copy.from_block, copy.from_offset + i) * size], size);
        };
        const std::size_t size = traits_of(c.type).value_bytes;
        for (std::uint32_t h = 0; h < c.num_kv_heads; ++h) {
          for (std::uint32_t d = 0; d < c.head_dim; ++d) {
            move(
                pools.keys(), const_cast<two_pools&>(before).keys(),
                [&](block_id b, std::uint32_t cell) { return layer.key_index(b, h, cell, d); }, size);
            move(
                pools.values(), const_cast<two_pools&>(before).values(),
                [&](block_id b, std::uint32_t cell) { return layer.value_index(b, h, cell, d); }, size);
          }
          if (c.type != kv_type::q8) continue;
          const std::size_t to = layer.scale_index(copy.to_block, h, copy.to_offset + i);
          const std::size_t from = layer.scale_index(copy.from_block, h, copy.from_offset + i);
          const std::size_t half = pools.scales().size() / 2;
          pools.scales()[to] = const_cast<two_pools&>(before).scales()[from];
          pools.scales()[half + to] = const_cast<two_pools&>(before).scales()[half + from];
        }
      }
    }
    run([&](device::ops& ops) { ops.kv_copy({layer, copies}); });
    expect_equal(pools, layer, c);
  }
}

TEST_F(gpu_attention, kv_copy_brings_cells_of_every_type_from_another_pool) {
  for (const attention_case& c : attention_cases) {
    test::paged_sequences paged(c.block_size, 8, random_());
    paged.add_sequence(3 * c.block_size);
    two_pools whole(c, 8), copied(c, 8);
    fill(whole, paged, c);
    const device::kv_layer from = there(whole), layer = there(copied);
    std::vector<device::kv_copy> copies;
    for (std::uint32_t b = 0; b < 3; ++b) {
      copies.push_back(paged.copy_of(0, b * c.block_size, b * c.block_size));
      copies.back().num_cells = c.block_size;
    }
    run([&](device::ops& ops) { ops.kv_copy({layer, copies, &from}); });
    expect_equal(whole, layer, c);
  }
}

TEST_F(gpu_attention, kv_copy_refuses_cells_outside_the_pool) {
  const attention_case c = attention_cases[0];
  two_pools pools(c, 2);
  const device::kv_layer layer = there(pools);
  const device::kv_copy copies[] = {{block_id{0}, 0, block_id{2}, 0, 1},
                                    {block_id{0}, 15, block_id{1}, 0, 2}};
  for (const auto& copy : copies) {
    const auto done = stream_->submit("copy", {}, [&](device::ops& ops) {
      ops.kv_copy({layer, {&copy, 1}});
    });
    done.wait();
    EXPECT_NE(done.failure().value().message().find("outside the pool"), std::string::npos);
  }
}

TEST_F(gpu_attention, attention_equals_the_reference) {
  for (const attention_case& c : attention_cases) {
    const std::uint32_t long_length = c.head_dim > 64 ? 300 : 530;
    const std::uint32_t num_blocks = 2 * long_length / c.block_size + 12;
    test::paged_sequences paged(c.block_size, num_blocks, random_());
    paged.add_sequence(long_length);
    paged.add_sequence(19);
    two_pools pools(c, num_blocks);
    fill(pools, paged, c);
    auto rows = paged.chain_rows(0, long_length - 2, long_length);
    for (const auto& row : paged.chain_rows(1, 0, 19)) rows.push_back(row);
    for (const auto& row : paged.chain_rows(0, 254, 258)) rows.push_back(row);
    for (const auto& row : paged.block_rows(0, 253, 258)) rows.push_back(row);
    for (const auto& row : paged.tree_rows(0, long_length - 30, {-1, 0, 0, 1, 2, 2, 5, 3}))
      rows.push_back(row);
    const auto batch = paged.batch(rows);
    const std::size_t width = std::size_t{c.num_heads} * c.head_dim, stride = width + 3;
    const auto queries = values(rows.size() * width);
    std::vector<float> expected(rows.size() * stride, guard);
    device::attention_args args{&batch, pools.here(), queries.data(), width,      expected.data(),
                                stride, c.num_heads,  0.125F,         c.soft_cap, c.window};
    for (std::uint32_t r = 0; r < rows.size(); ++r)
      for (std::uint32_t h = 0; h < c.num_heads; ++h)
        cpu::reference_row_kernels().attention(args, {{r, r + 1}, h, h + 1});
    args.layer = there(pools);
    args.queries = upload(queries);
    args.out = upload(std::vector<float>(rows.size() * stride, guard));
    run([&](device::ops& ops) { ops.attention(args); });
    EXPECT_TRUE(same_bits(expected, download(args.out, expected.size()))) << c;
  }
}

} // namespace
} // namespace paceline::gpu
