// Attention of a GPU's 16-bit arithmetic (gpu/kernels/split_attention_params.hpp) has the bits of its
// contract, row by row, for any other rows in the pass, and is within derived bounds of exact attention.
#include "gpu/split_attention.hpp"
#include "tests/gpu/kernels/kv_pools.hpp"
#include "tests/gpu/kernels/split_attention_reference.hpp"
#include "tests/support/tensor_compare.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::gpu::split_attention_test {
namespace {

using test::same_bits;

constexpr float guard = 12345.678F;

const attention_case attention_cases[] = {
    {8, 2, 64, 16, kv_type::f16, 0, 0},   {4, 1, 256, 32, kv_type::f16, 70, 0},
    {4, 4, 20, 4, kv_type::f16, 0, 0},    {6, 2, 80, 48, kv_type::f32, 200, 0},
    {2, 1, 7, 5, kv_type::f32, 0, 30},    {14, 2, 32, 64, kv_type::f16, 7, 50},
    {20, 1, 512, 16, kv_type::f16, 0, 0}, // more heads than a tile
    {3, 1, 64, 16, kv_type::bf16, 0, 0},  {6, 2, 20, 5, kv_type::bf16, 129, 30},
    {3, 1, 64, 16, kv_type::q8, 0, 0},    {4, 1, 256, 32, kv_type::q8, 70, 0},
    {6, 2, 20, 5, kv_type::q8, 0, 30},
};

class gpu_split_attention : public kv_pool_test {
 protected:
  gpu_split_attention() : kv_pool_test(arithmetic::sixteen_bit) {}

  /// Rows of all kinds near borders of splits: the last of one sequence and the first of another, a prompt
  /// across the end of a split, a block across one, a tree across one, and a path longer than tiles of
  /// several rows allow.
  static std::vector<device::batch_entry> all_kinds_of_rows(test::paged_sequences& paged,
                                                            std::uint32_t length) {
    std::vector<std::int32_t> chain(70);
    for (int i = 0; i < 70; ++i) chain[i] = i - 1;
    auto rows = paged.chain_rows(0, length - 2, length);
    const auto append = [&](const std::vector<device::batch_entry>& some) {
      rows.insert(rows.end(), some.begin(), some.end());
    };
    append(paged.chain_rows(1, 0, 3));
    append(paged.chain_rows(0, 122, 132));
    append(paged.block_rows(0, 125, 131));
    append(paged.tree_rows(0, 126, {-1, 0, 0, 1, 2, 2, 5, 3}));
    append(paged.tree_rows(0, length - 30, {-1, -1, 0, 1, 2, 2, 5, 3}));
    const auto path = paged.tree_rows(0, 60, chain);
    append({path.end() - 3, path.end()});
    return rows;
  }

  struct inputs {
    std::vector<float> queries;
    std::vector<float> out;
    device::attention_args here;
  };
  inputs make_inputs(const device::row_batch& batch, two_pools& pools, const attention_case& c) {
    const std::size_t width = std::size_t{c.num_heads} * c.head_dim;
    inputs in{
        values(batch.rows.size() * width), std::vector<float>(batch.rows.size() * (width + 3), guard), {}};
    in.here = {&batch,      pools.here(), in.queries.data(), width,   in.out.data(), width + 3,
               c.num_heads, 0.125F,       c.soft_cap,        c.window};
    return in;
  }
  /// The device's results for `in`, rows of num_heads * head_dim values.
  std::vector<float> attend(const inputs& in, two_pools& pools) {
    device::attention_args args = in.here;
    args.layer = there(pools);
    args.queries = upload(in.queries);
    args.out = upload(in.out);
    run([&](device::ops& ops) { ops.attention(args); });
    const auto all = download(args.out, in.out.size());
    std::vector<float> out;
    for (std::size_t at = 0; at < all.size(); at += args.out_stride) {
      out.insert(out.end(), all.begin() + at, all.begin() + at + args.query_stride);
      for (std::size_t i = args.query_stride; i < args.out_stride; ++i) EXPECT_EQ(all[at + i], guard);
    }
    return out;
  }
  static std::vector<float> contract_of(const inputs& in) {
    std::vector<float> out;
    for (std::uint32_t r = 0; r < in.here.batch->rows.size(); ++r)
      for (std::uint32_t h = 0; h < in.here.num_heads; ++h) {
        const auto head = split_attention_reference(in.here, r, h);
        out.insert(out.end(), head.out.begin(), head.out.end());
      }
    return out;
  }
};

TEST_F(gpu_split_attention, has_the_bits_of_its_contract_and_keeps_to_the_bounds_of_exact_attention) {
  for (const attention_case& c : attention_cases) {
    const std::uint32_t length = c.head_dim > 64 ? 270 : 400, num_blocks = 2 * length / c.block_size + 12;
    test::paged_sequences paged(c.block_size, num_blocks, random_());
    paged.add_sequence(length);
    paged.add_sequence(19);
    two_pools pools(c, num_blocks);
    fill(pools, paged, c);
    const auto rows = all_kinds_of_rows(paged, length);
    const auto batch = paged.batch(rows);
    const inputs in = make_inputs(batch, pools, c);
    const auto actual = attend(in, pools);
    ASSERT_TRUE(same_bits(contract_of(in), actual)) << c;
    std::size_t at = 0;
    for (std::uint32_t r = 0; r < rows.size(); ++r) {
      for (std::uint32_t h = 0; h < c.num_heads; ++h) {
        const auto head = split_attention_reference(in.here, r, h);
        for (std::uint32_t d = 0; d < c.head_dim; ++d, ++at)
          ASSERT_TRUE(std::fabs(actual[at] - head.exact[d]) <= head.bounds[d])
              << c << ", row " << r << ", head " << h << ", dimension " << d << ": " << actual[at] << " is "
              << std::fabs(actual[at] - head.exact[d]) << " off " << head.exact[d] << ", more than "
              << head.bounds[d];
      }
    }
  }
}

TEST_F(gpu_split_attention, bounds_are_of_the_size_of_roundings) {
  const attention_case c{2, 1, 64, 16, kv_type::f32, 0, 0};
  test::paged_sequences paged(16, 40, random_());
  paged.add_sequence(400);
  two_pools pools(c, 40);
  std::normal_distribution<float> normal;
  for (auto* const array : {&pools.keys(), &pools.values()})
    for (std::size_t at = 0; at < array->size(); at += sizeof(float)) {
      const float value = normal(random_);
      std::memcpy(array->data() + at, &value, sizeof value);
    }
  const auto rows = paged.chain_rows(0, 399, 400);
  const auto batch = paged.batch(rows);
  inputs in = make_inputs(batch, pools, c);
  std::ranges::generate(in.queries, [&] { return normal(random_); });
  const auto head = split_attention_reference(in.here, 0, 1);
  // Chains of 132 roundings of 6e-8, of values of about 1; the same again for scores and for the sum.
  EXPECT_LE(*std::ranges::max_element(head.bounds), 1e-4);
}

TEST_F(gpu_split_attention, a_rows_bits_are_the_same_in_any_company) {
  const attention_case c{4, 2, 32, 16, kv_type::f16, 0, 0};
  test::paged_sequences paged(c.block_size, 60, random_());
  for (const std::uint32_t length : {300U, 140U, 90U}) paged.add_sequence(length);
  two_pools pools(c, 60);
  fill(pools, paged, c);
  for (const std::uint32_t num_rows : {1U, 2U, 7U, 16U, 33U, 80U}) {
    std::vector<device::batch_entry> rows;
    while (rows.size() < num_rows) { // pieces of sequences, trees and tokens, in any order
      const std::uint32_t sequence = random_() % 3, length = sequence == 0 ? 300 : sequence == 1 ? 140 : 90;
      const std::uint32_t begin = random_() % (length - 20);
      const auto some = random_() % 2 == 0 ? paged.tree_rows(sequence, begin, {-1, 0, 0, 2, 2, 1})
                                           : paged.chain_rows(sequence, begin, begin + 1 + random_() % 19);
      rows.insert(rows.end(), some.begin(), some.end());
    }
    rows.resize(num_rows);
    const auto batch = paged.batch(rows);
    const inputs in = make_inputs(batch, pools, c);
    ASSERT_TRUE(same_bits(contract_of(in), attend(in, pools))) << num_rows << " rows";
  }
}

TEST_F(gpu_split_attention, a_cell_that_is_not_seen_may_hold_anything) {
  const attention_case c{2, 1, 32, 16, kv_type::f32, 0, 0};
  test::paged_sequences paged(c.block_size, 12, random_());
  paged.add_sequence(140);
  two_pools pools(c, 12);
  fill(pools, paged, c);
  const auto rows = paged.tree_rows(0, 125, {-1, 0, 0, 2, 1, 3});
  const auto batch = paged.batch(rows);
  const device::kv_layer layer = pools.here();
  const auto spoilt = paged.copy_of(0, 127, 127); // node 2, the ancestor of nodes 3 and 5
  for (std::uint32_t d = 0; d < c.head_dim; ++d) {
    static_cast<float*>(layer.keys)[layer.key_index(spoilt.from_block, 0, spoilt.from_offset, d)] =
        std::numeric_limits<float>::quiet_NaN();
    static_cast<float*>(layer.values)[layer.value_index(spoilt.from_block, 0, spoilt.from_offset, d)] =
        std::numeric_limits<float>::infinity();
  }
  const inputs in = make_inputs(batch, pools, c);
  const auto actual = attend(in, pools);
  const std::size_t width = in.here.query_stride;
  for (std::uint32_t r = 0; r < rows.size(); ++r) {
    const std::vector<float> row(actual.begin() + r * width, actual.begin() + (r + 1) * width);
    const bool sees_it = r == 2 || r == 3 || r == 5;
    EXPECT_EQ(std::ranges::all_of(row, [](float v) { return std::isnan(v); }), sees_it) << r;
    EXPECT_EQ(std::ranges::none_of(row, [](float v) { return std::isnan(v); }), !sees_it) << r;
  }
}

TEST_F(gpu_split_attention, slices_of_little_memory_give_the_same_bits) {
  const attention_case c{4, 2, 32, 16, kv_type::f16, 0, 0};
  test::paged_sequences paged(c.block_size, 60, random_());
  paged.add_sequence(300);
  paged.add_sequence(90);
  two_pools pools(c, 60);
  fill(pools, paged, c);
  auto rows = paged.chain_rows(0, 240, 280);
  for (const auto& row : paged.chain_rows(1, 60, 80)) rows.push_back(row);
  const auto batch = paged.batch(rows);
  const inputs in = make_inputs(batch, pools, c);
  device::attention_args args = in.here;
  args.layer = there(pools);
  args.queries = upload(in.queries);
  args.out_stride = args.query_stride;
  const auto tiles = tile_rows(batch, shape_of(args));
  ASSERT_EQ(slice_tiles(batch, tiles, shape_of(args), 1).size(), tiles.size());
  ASSERT_GT(tiles.size(), 3U);
  std::vector<std::uint32_t> first_block{0};
  std::vector<block_id> blocks;
  for (const auto& sequence : batch.sequences) {
    blocks.insert(blocks.end(), sequence.blocks.begin(), sequence.blocks.end());
    first_block.push_back(static_cast<std::uint32_t>(blocks.size()));
  }
  const batch_view view{upload(rows), nullptr, upload(blocks), upload(first_block)};
  const row_tile* const tiles_there = upload(tiles);
  const device_context on{*tested_runtime(), 0, "cuda:0"};
  on.require(on.api.use(0), "cudaSetDevice");
  command_queue queue(on, 0);
  step_queue steps(queue);
  split_attention poor(steps, 1);
  const auto expected = contract_of(in);
  // While memory grows, as commands, as a graph, and as an updated graph.
  for (int time = 0; time < 4; ++time) {
    args.out = upload(in.out);
    poor.attend(args, tiles, tiles_there, view);
    steps.finish();
    EXPECT_TRUE(same_bits(expected, download(args.out, rows.size() * args.query_stride))) << time;
  }
}

} // namespace
} // namespace paceline::gpu::split_attention_test
