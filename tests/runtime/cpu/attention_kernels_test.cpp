// Attention of every kernel level against the reference, by units, splits and threads of all sizes.
#include "tests/runtime/cpu/row_kernel_cases.hpp"

#include "runtime/cpu/row_runner.hpp"
#include "runtime/cpu/thread_team.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

namespace paceline::cpu {
namespace {

/// One attention over prepared memory, by any kernels and units.
class attention_run {
 public:
  attention_run(const attention_case& c, test::paged_sequences& paged, std::uint32_t num_blocks,
                const std::function<std::vector<float>(std::size_t)>& make)
      : case_(c), pool(c, num_blocks) {
    for (std::uint32_t s = 0; s < paged.num_sequences(); ++s) {
      const auto rows = paged.every_slot(s);
      const std::size_t stride = std::size_t{c.num_kv_heads} * c.head_dim;
      const auto keys = make(rows.size() * stride);
      const auto values = make(rows.size() * stride);
      const auto batch = paged.batch(rows);
      reference_row_kernels().kv_write({&batch, pool.layer, keys.data(), values.data(), stride},
                                       {0, static_cast<std::uint32_t>(rows.size())});
    }
  }

  /// Output of `rows` with `queries`, computed in units of `rows_per_unit` rows and `heads_per_unit` heads.
  std::vector<float> run(const row_kernels& kernels, const device::row_batch& batch,
                         const std::vector<float>& queries, std::uint32_t rows_per_unit,
                         std::uint32_t heads_per_unit) const {
    return out_of(batch, queries, [&](const device::attention_args& args) {
      for_units(batch, rows_per_unit, heads_per_unit,
                [&](const attention_unit& unit) { kernels.attention(args, unit); });
    });
  }

  /// The same by parts, `splits_at_once` at a time, which are merged then.
  std::vector<float> run_by_splits(const row_kernels& kernels, const device::row_batch& batch,
                                   const std::vector<float>& queries, std::uint32_t rows_per_unit,
                                   std::uint32_t heads_per_unit, std::uint32_t splits_at_once) const {
    const auto num_rows = static_cast<std::uint32_t>(batch.rows.size());
    attention_parts parts;
    for (const auto& row : batch.rows)
      parts.num_splits = std::max(parts.num_splits, row.position.value / device::attention_split + 1);
    parts.acc_stride = (case_.head_dim + 15) / 16 * 16;
    const std::size_t count = std::size_t{num_rows} * case_.num_heads * parts.num_splits;
    std::vector<float> max(count, guard), sum(count, guard), acc(count * parts.acc_stride, guard);
    parts.max = max.data(), parts.sum = sum.data(), parts.acc = acc.data();
    return out_of(batch, queries, [&](const device::attention_args& args) {
      for (std::uint32_t s = 0; s < parts.num_splits; s += splits_at_once)
        for_units(batch, rows_per_unit, heads_per_unit, [&](const attention_unit& unit) {
          kernels.attention_splits(args, unit, {s, s + splits_at_once}, parts);
        });
      for (std::uint32_t r = 0; r < num_rows; ++r) kernels.merge_splits(args, {r, r + 1}, parts);
    });
  }

  /// The same by a runner.
  std::vector<float> run(row_runner& runner, const device::row_batch& batch,
                         const std::vector<float>& queries) const {
    return out_of(batch, queries, [&](const device::attention_args& args) { runner.attention(args); });
  }

 private:
  template <class Fn>
  std::vector<float> out_of(const device::row_batch& batch, const std::vector<float>& queries,
                            const Fn& fn) const {
    const std::size_t width = std::size_t{case_.num_heads} * case_.head_dim;
    const std::size_t out_stride = width + 3;
    std::vector<float> out(batch.rows.size() * out_stride, guard);
    fn(device::attention_args{&batch, pool.layer, queries.data(), width, out.data(), out_stride,
                              case_.num_heads, 0.125F, case_.soft_cap, case_.window});
    return out;
  }

  template <class Fn>
  void for_units(const device::row_batch& batch, std::uint32_t rows_per_unit, std::uint32_t heads_per_unit,
                 const Fn& fn) const {
    const auto num_rows = static_cast<std::uint32_t>(batch.rows.size());
    const std::uint32_t group = case_.num_heads / case_.num_kv_heads;
    for (std::uint32_t r = 0; r < num_rows;) {
      std::uint32_t end = r + 1;
      while (end < num_rows && end - r < rows_per_unit && batch.rows[end].sequence == batch.rows[r].sequence)
        ++end;
      for (std::uint32_t h = 0; h < case_.num_heads;) {
        const std::uint32_t group_end = (h / group + 1) * group;
        const std::uint32_t head_end = std::min(h + heads_per_unit, group_end);
        fn({{r, end}, h, head_end});
        h = head_end;
      }
      r = end;
    }
  }

  attention_case case_;

 public:
  poisoned_pool pool;
};

TEST_P(row_kernels_test, attention_equals_the_reference) {
  for (const attention_case& c : attention_cases) {
    const std::uint32_t long_length = c.head_dim > 64 ? 300 : 530;
    const std::uint32_t num_blocks = 2 * long_length / c.block_size + 12;
    test::paged_sequences paged(c.block_size, num_blocks, random_());
    paged.add_sequence(long_length);
    paged.add_sequence(19);
    attention_run attention(c, paged, num_blocks, [&](std::size_t n) { return values(n); });
    std::vector<device::batch_entry> rows = paged.chain_rows(0, long_length - 5, long_length);
    for (const auto& row : paged.chain_rows(1, 0, 19)) rows.push_back(row);
    for (const auto& row : paged.chain_rows(0, 252, 262)) rows.push_back(row);
    for (const auto& row : paged.block_rows(0, 250, 259)) rows.push_back(row);
    for (const auto& row : paged.tree_rows(0, long_length - 30, {-1, 0, 0, 1, 2, 2, 5, 3}))
      rows.push_back(row);
    const auto batch = paged.batch(rows);
    const auto queries = values(rows.size() * c.num_heads * c.head_dim);
    const auto expected = attention.run(reference(), batch, queries, 1, 1);
    const std::uint32_t group = c.num_heads / c.num_kv_heads;
    for (std::uint32_t heads : {1U, 2U, std::min(group, attention_unit_queries)}) {
      for (std::uint32_t unit_rows : {1U, 2U, attention_unit_queries / heads}) {
        if (unit_rows * heads > attention_unit_queries) continue;
        EXPECT_TRUE(same_bits(expected, attention.run(fast(), batch, queries, unit_rows, heads)))
            << c << ": " << unit_rows << " rows, " << heads << " heads a unit";
        for (std::uint32_t splits : {1U, 2U, 100U})
          EXPECT_TRUE(
              same_bits(expected, attention.run_by_splits(fast(), batch, queries, unit_rows, heads, splits)))
              << c << ": " << unit_rows << " rows, " << heads << " heads a unit, " << splits << " splits";
      }
    }
    EXPECT_TRUE(same_bits(expected, attention.run_by_splits(reference(), batch, queries, 1, 1, 1))) << c;
  }
}

TEST(row_runner, attention_is_the_same_however_many_threads_share_it) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const auto make = [&](std::size_t n) {
    std::vector<float> values(n);
    for (float& v : values) v = normal(random);
    return values;
  };
  for (const attention_case& c : attention_cases) {
    const std::uint32_t length = c.head_dim > 64 ? 300 : 530;
    const std::uint32_t num_blocks = 2 * length / c.block_size + 12;
    test::paged_sequences paged(c.block_size, num_blocks, random());
    paged.add_sequence(length);
    paged.add_sequence(19);
    attention_run attention(c, paged, num_blocks, make);
    for (const std::uint32_t num_rows : {1U, 3U, 16U}) { // units too few for all, and enough
      std::vector<device::batch_entry> rows = paged.chain_rows(0, length - num_rows, length);
      if (num_rows > 1) rows.push_back(paged.chain_rows(1, 18, 19)[0]);
      const auto batch = paged.batch(rows);
      const auto queries = make(rows.size() * c.num_heads * c.head_dim);
      const auto expected = attention.run(reference_row_kernels(), batch, queries, 1, 1);
      for (const std::uint32_t num_threads : {1U, 2U, 5U}) {
        thread_team::options opts;
        opts.num_threads = num_threads;
        thread_team team(opts);
        row_runner runner(team, best_kernel_level());
        EXPECT_TRUE(same_bits(expected, attention.run(runner, batch, queries)))
            << c << ": " << num_rows << " rows, " << num_threads << " threads";
      }
    }
  }
}

TEST_P(row_kernels_test, a_tree_row_equals_the_chain_row_of_its_path) {
  for (const attention_case& c : attention_cases) {
    const std::uint32_t base = 275;
    const std::uint32_t num_blocks = 2 * base / c.block_size + 20;
    test::paged_sequences paged(c.block_size, num_blocks, random_());
    paged.add_sequence(base + 12);
    attention_run attention(c, paged, num_blocks, [&](std::size_t n) { return values(n); });
    // Path 0, 2, 5, 6, 7: slots base + 0, + 2, + 5, + 6, + 7 hold positions base .. base + 4.
    const auto tree = paged.tree_rows(0, base, {-1, 0, 0, 1, 2, 2, 5, 6});
    const std::vector<device::batch_entry> leaf{tree[7]};
    ASSERT_EQ(leaf[0].position.value, base + 4);
    const auto queries = values(std::size_t{c.num_heads} * c.head_dim);
    const auto scattered = attention.run(fast(), paged.batch(leaf), queries, 1, 1);
    const auto beside_others = attention.run(
        fast(), paged.batch(tree),
        [&] {
          std::vector<float> all(tree.size() * queries.size());
          std::copy(queries.begin(), queries.end(), all.end() - static_cast<std::ptrdiff_t>(queries.size()));
          return all;
        }(),
        8, 1);
    EXPECT_EQ(
        std::memcmp(scattered.data(), beside_others.data() + 7 * scattered.size(), scattered.size() * 4), 0)
        << c;
    // Compaction: position base + i comes from the slot base + path[i].
    const std::uint32_t path[] = {0, 2, 5, 6, 7};
    for (std::uint32_t i = 0; i < 5; ++i) paged.copy_cell(attention.pool.layer, 0, base + path[i], base + i);
    const auto chain = paged.chain_rows(0, base + 4, base + 5);
    EXPECT_TRUE(same_bits(scattered, attention.run(fast(), paged.batch(chain), queries, 1, 1))) << c;
  }
}

} // namespace
} // namespace paceline::cpu
