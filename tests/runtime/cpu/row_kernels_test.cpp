// Every kernel level has the bits of the reference, and writes only its outputs.
#include "runtime/cpu/row_kernels.hpp"

#include "runtime/cpu/row_runner.hpp"
#include "runtime/cpu/thread_team.hpp"
#include "tests/support/paged_sequences.hpp"
#include "tests/support/row_cases.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace paceline::cpu {
const row_kernels& emulated_avx512_row_kernels() noexcept;
namespace {

struct level {
  const char* name;
  bool (*available)();
  const row_kernels& (*kernels)() noexcept;
};

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() { return __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"); }

class row_kernels_test : public testing::TestWithParam<level> {
 protected:
  void SetUp() override {
    if (!GetParam().available()) GTEST_SKIP() << "this machine has no " << GetParam().name;
    seed_ = std::random_device{}();
    RecordProperty("seed", std::to_string(seed_));
    random_.seed(seed_);
  }
  void TearDown() override {
    if (HasFailure()) printf("seed %u\n", seed_);
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

constexpr float guard = 12345.678F;

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_P(row_kernels_test, rms_norm_equals_the_reference) {
  for (std::uint32_t width : {1U, 7U, 16U, 33U, 64U, 100U, 576U, 2051U}) {
    for (std::uint32_t parts : {1U, 3U}) {
      const std::size_t stride = std::size_t{width} * parts + 5;
      const std::uint32_t num_rows = 3;
      const auto x = values(stride * num_rows);
      const auto weight = values(width);
      std::vector<float> expected(stride * num_rows, guard);
      std::vector<float> y = expected;
      device::rms_norm_args args{x.data(), stride, expected.data(), stride, weight.data(),
                                 num_rows, parts,  width,           1e-6F};
      reference().rms_norm(args, {0, num_rows});
      args.y = y.data();
      fast().rms_norm(args, {2, 3});
      fast().rms_norm(args, {0, 2});
      EXPECT_TRUE(same_bits(expected, y)) << "width " << width << " parts " << parts;
      auto in_place = x;
      args.x = args.y = in_place.data();
      fast().rms_norm(args, {0, num_rows});
      for (std::uint32_t r = 0; r < num_rows; ++r)
        EXPECT_EQ(std::memcmp(&in_place[r * stride], &expected[r * stride], std::size_t{width} * parts * 4),
                  0);
    }
  }
}

TEST_P(row_kernels_test, rope_equals_the_reference) {
  for (auto layout : {device::rope_layout::interleaved, device::rope_layout::half_split}) {
    for (std::uint32_t pairs : {1U, 5U, 8U, 16U, 32U, 45U}) {
      for (std::uint32_t unrotated : {0U, 6U}) {
        const std::uint32_t head_dim = 2 * pairs + unrotated;
        const std::uint32_t num_heads = 3;
        const std::size_t stride = std::size_t{head_dim} * num_heads + 3;
        const auto table = values(std::size_t{2} * 2 * pairs);
        auto expected = values(2 * stride);
        auto x = expected;
        device::rope_args args{expected.data(), stride, table.data(), 2, num_heads, head_dim, pairs, layout};
        reference().rope(args, {0, 2});
        args.x = x.data();
        fast().rope(args, {1, 2});
        fast().rope(args, {0, 1});
        EXPECT_TRUE(same_bits(expected, x)) << "pairs " << pairs << " unrotated " << unrotated;
      }
    }
  }
}

TEST_P(row_kernels_test, glu_equals_the_reference_for_every_size_of_gate) {
  for (auto act : {device::activation::silu, device::activation::gelu_tanh}) {
    for (std::uint32_t width : {1U, 15U, 16U, 50U, 1536U}) {
      for (float deviation : {0.01F, 1.0F, 30.0F, 1e20F}) {
        const std::size_t stride = 2 * std::size_t{width} + 1;
        const auto x = values(2 * stride, deviation);
        std::vector<float> expected(2 * (width + 2), guard);
        auto out = expected;
        device::glu_args args{x.data(), x.data() + width, stride, expected.data(), width + 2, 2, width, act};
        reference().glu(args, {0, 2});
        args.out = out.data();
        fast().glu(args, {0, 1});
        fast().glu(args, {1, 2});
        EXPECT_TRUE(same_bits(expected, out)) << "width " << width << " deviation " << deviation;
      }
    }
  }
}

TEST_P(row_kernels_test, glu_of_special_gates_equals_the_reference) {
  const auto gate = test::special_gates();
  const std::vector<float> up(gate.size(), 1.0F);
  const auto width = static_cast<std::uint32_t>(gate.size());
  for (auto act : {device::activation::silu, device::activation::gelu_tanh}) {
    std::vector<float> expected(width), out(width);
    device::glu_args args{gate.data(), up.data(), width, expected.data(), width, 1, width, act};
    reference().glu(args, {0, 1});
    args.out = out.data();
    fast().glu(args, {0, 1});
    EXPECT_TRUE(same_bits(expected, out));
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float out = 0;
  fast().glu({&nan, up.data(), 1, &out, 1, 1, 1, device::activation::silu}, {0, 1});
  EXPECT_TRUE(std::isnan(out));
}

using test::attention_case;

const attention_case attention_cases[] = {
    {9, 3, 64, 16, kv_type::f16, 0, 0},   {4, 1, 256, 32, kv_type::f16, 70, 0},
    {14, 2, 64, 16, kv_type::f16, 0, 0},  {4, 4, 20, 4, kv_type::f16, 0, 0},
    {6, 2, 80, 48, kv_type::f32, 300, 0}, {2, 1, 8, 5, kv_type::f32, 0, 30},
    {16, 1, 32, 64, kv_type::f16, 7, 50}, {5, 5, 512, 16, kv_type::f16, 0, 0},
    {9, 3, 64, 16, kv_type::bf16, 0, 0},  {6, 2, 20, 5, kv_type::bf16, 70, 30},
    {9, 3, 64, 16, kv_type::q8, 0, 0},    {4, 1, 256, 32, kv_type::q8, 70, 0},
    {6, 2, 20, 5, kv_type::q8, 0, 30},    {14, 2, 80, 48, kv_type::q8, 300, 0},
};

/// A pool of NaN.
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

TEST_P(row_kernels_test, kv_write_equals_the_reference) {
  for (const attention_case& c : attention_cases) {
    test::paged_sequences paged(c.block_size, 40, random_());
    paged.add_sequence(3 * c.block_size + 2);
    paged.add_sequence(2);
    const auto written = paged.chain_rows(0, 0, 3 * c.block_size + 2);
    const std::size_t stride = std::size_t{c.num_kv_heads} * c.head_dim * 2 + 3;
    auto x = values(written.size() * stride);
    const std::size_t of_values = stride / 2;
    x[1] = 70000.0F; // beyond half precision
    x[2] = 1e-7F;    // subnormal there
    x[stride] = std::numeric_limits<float>::infinity();
    x[stride + of_values + 2] = -std::numeric_limits<float>::quiet_NaN();
    x[2 * stride + 1] = std::numeric_limits<float>::max(); // bfloat16 rounds it to infinity
    x[2 * stride + 2] = 1e-42F;                            // subnormal everywhere
    x[2 * stride + of_values] = -std::numeric_limits<float>::max();
    for (std::uint32_t d = 0; d < c.head_dim; ++d) {
      x[3 * stride + d] = 0x1.fp-101F;                            // below the range of codes
      x[3 * stride + of_values + d] = d == 1 ? -0x1p-100F : 0.0F; // the smallest in the range
    }
    poisoned_pool expected(c, 40), pool(c, 40);
    const auto batch = paged.batch(written);
    device::kv_write_args args{&batch, expected.layer, x.data(), x.data() + of_values, stride};
    const auto num_rows = static_cast<std::uint32_t>(written.size());
    reference().kv_write(args, {0, num_rows});
    args.layer = pool.layer;
    fast().kv_write(args, {1, num_rows});
    fast().kv_write(args, {0, 1});
    EXPECT_EQ(expected.keys, pool.keys) << c;
    EXPECT_EQ(expected.values, pool.values) << c;
    EXPECT_TRUE(same_bits(expected.key_scales, pool.key_scales)) << c;
    EXPECT_TRUE(same_bits(expected.value_scales, pool.value_scales)) << c;
  }
}

TEST(kv_copy, moves_cells_of_every_type_with_their_scales) {
  thread_team team(thread_team::options{});
  row_runner runner(team, kernel_level::scalar);
  for (const attention_case& c : attention_cases) {
    test::paged_sequences paged(c.block_size, 8, 1);
    paged.add_sequence(2 * c.block_size);
    const auto rows = paged.every_slot(0);
    const std::size_t stride = std::size_t{c.num_kv_heads} * c.head_dim;
    std::vector<float> x(rows.size() * stride);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1009 + 1);
    poisoned_pool one_by_one(c, 8), at_once(c, 8);
    const auto batch = paged.batch(rows);
    for (const auto* pool : {&one_by_one, &at_once})
      reference_row_kernels().kv_write({&batch, pool->layer, x.data(), x.data(), stride},
                                       {0, static_cast<std::uint32_t>(rows.size())});
    const std::uint32_t num_cells = c.block_size - 1; // the last cells of a block to the first of another
    for (std::uint32_t i = 0; i < num_cells; ++i)
      paged.copy_cell(one_by_one.layer, 0, 1 + i, c.block_size + i);
    device::kv_copy copy = paged.copy_of(0, 1, c.block_size);
    copy.num_cells = num_cells;
    runner.kv_copy({at_once.layer, {&copy, 1}});
    EXPECT_EQ(one_by_one.keys, at_once.keys) << c;
    EXPECT_EQ(one_by_one.values, at_once.values) << c;
    EXPECT_TRUE(same_bits(one_by_one.key_scales, at_once.key_scales)) << c;
    EXPECT_TRUE(same_bits(one_by_one.value_scales, at_once.value_scales)) << c;
  }
}

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

INSTANTIATE_TEST_SUITE_P(levels, row_kernels_test,
                         testing::Values(level{"avx2", has_avx2, avx2_row_kernels},
                                         level{"avx512", has_avx512, avx512_row_kernels},
                                         level{"emulated_avx512", has_avx2, emulated_avx512_row_kernels}),
                         [](const auto& test) { return test.param.name; });

} // namespace
} // namespace paceline::cpu
