// The inputs of attention in a GPU's 16-bit arithmetic have the bits of norm, products, QK norm, rotation and
// cell writes as separate ops.
#include "gpu/split_columns.hpp"
#include "runtime/device/op_matmul.hpp"
#include "runtime/device/op_qkv.hpp"
#include "tests/gpu/kernels/kv_pools.hpp"
#include "tests/support/tensor_compare.hpp"

#include <array>

namespace paceline::gpu {
namespace {

using device::tensor_type;
using test::random_tensor;
using test::same_bits;

constexpr float guard = 12345.678F;
constexpr std::uint32_t block_size = 16;

/// A layer's shape and its optional parts.
struct shape {
  std::uint32_t num_heads = 6, num_kv_heads = 2, head_dim = 32, num_cols = 256;
  std::uint32_t num_rows = 5;
  tensor_type type = tensor_type::q4_0, type_of_values = tensor_type::q4_0;
  kv_type cells = kv_type::f16;
  device::rope_layout layout = device::rope_layout::half_split;
  std::uint32_t num_unrotated = 0; ///< values per head
  bool has_norm = true, has_bias = false, has_head_norm = false, has_query_table = false;
  bool norms_rows = false; ///< the norm of heads is one of rows
};

std::ostream& operator<<(std::ostream& out, const shape& s) {
  return out << s.num_heads << '/' << s.num_kv_heads << " heads of " << s.head_dim << ", " << s.num_cols
             << " columns, " << s.num_rows << " rows, " << device::traits_of(s.type)->name << " and "
             << device::traits_of(s.type_of_values)->name << ", cells " << traits_of(s.cells).name
             << ", bias " << s.has_bias << ", norms " << s.has_norm << s.has_head_norm << s.norms_rows;
}

class qkv : public kv_pool_test {
 protected:
  qkv() : kv_pool_test(arithmetic::sixteen_bit) {}

  /// Weights, rows, and the destinations of the rows.
  struct layer {
    explicit layer(const shape& s, std::uint32_t seed) : of(s), paged(block_size, 16, seed) {}
    shape of;
    test::paged_sequences paged;
    std::vector<device::batch_entry> rows;
    std::unique_ptr<const device::matrix> q, k, v;
    device::qkv_args args;
  };

  layer make_layer(const shape& s) {
    layer out(s, random_());
    const std::uint32_t second = s.num_rows / 2; // rows of two sequences
    out.paged.add_sequence(100);
    out.paged.add_sequence(60);
    out.rows = out.paged.chain_rows(0, 7, 7 + s.num_rows - second);
    for (const auto& row : out.paged.tree_rows(1, 20, std::vector<std::int32_t>(second, -1)))
      out.rows.push_back(row);
    const auto matrix = [&](tensor_type type, std::uint32_t heads) {
      return pack(random_tensor(type, heads * s.head_dim, s.num_cols, random_));
    };
    out.q = matrix(s.type, s.num_heads);
    out.k = matrix(s.type, s.num_kv_heads);
    out.v = matrix(s.type_of_values, s.num_kv_heads);
    device::qkv_args& args = out.args;
    const auto weights = [&](const device::matrix& from, bool is_value) {
      const std::size_t width = s.norms_rows ? from.num_rows() : s.head_dim;
      return device::qkv_weights{&from, s.has_bias ? upload(values(from.num_rows())) : nullptr,
                                 s.has_head_norm && !is_value ? upload(values(width)) : nullptr};
    };
    args.q = weights(*out.q, false), args.k = weights(*out.k, false), args.v = weights(*out.v, true);
    args.x_stride = s.num_cols + 3;
    args.x = upload(values(s.num_rows * args.x_stride, 0.1F));
    args.num_cols = s.num_cols;
    if (s.has_norm) args.norm.weight = upload(values(s.num_cols));
    args.norm.epsilon = 1e-5F, args.head_epsilon = 1e-6F;
    args.norms_rows = s.norms_rows;
    args.num_heads = s.num_heads;
    args.num_pairs = (s.head_dim - s.num_unrotated) / 2;
    if (args.num_pairs != 0) args.table = upload(values(std::size_t{s.num_rows} * 2 * args.num_pairs));
    if (s.has_query_table) args.query_table = upload(values(std::size_t{s.num_rows} * 2 * args.num_pairs));
    args.layout = s.layout;
    return out;
  }

  /// Results of an op: queries, and the pool.
  struct made {
    std::vector<float> queries, normed;
    std::vector<std::byte> keys, values, scales;
  };

  template <class Op>
  made make(const layer& of, const Op& op) {
    const attention_case c{
        of.of.num_heads, of.of.num_kv_heads, of.of.head_dim, block_size, of.of.cells, 0, 0};
    two_pools pools(c, 16);
    device::qkv_args args = of.args;
    const device::row_batch batch = of.paged.batch(of.rows);
    const std::size_t num_rows = of.rows.size();
    args.batch = &batch;
    args.cells = there(pools);
    args.norm.normed = upload(std::vector<float>(num_rows * args.num_cols, guard));
    args.out = upload(std::vector<float>(num_rows * args.stride(), guard));
    run([&](device::ops& ops) { op(ops, args); });
    made out;
    const auto all = download(args.out, num_rows * args.stride());
    for (std::size_t r = 0; r < num_rows; ++r)
      out.queries.insert(out.queries.end(), all.begin() + r * args.stride(),
                         all.begin() + r * args.stride() + args.q_size());
    out.normed = download(args.norm.normed, num_rows * args.num_cols);
    out.keys = download(static_cast<const std::byte*>(args.cells.keys), pools.keys().size());
    out.values = download(static_cast<const std::byte*>(args.cells.values), pools.values().size());
    out.scales = download(reinterpret_cast<const std::byte*>(args.cells.key_scales),
                          pools.scales().size() * sizeof(float));
    return out;
  }

  /// Computed by the ops of the contract, in its order.
  made one_after_the_other(const layer& of) {
    return make(of, [&](device::ops& ops, const device::qkv_args& a) {
      const std::uint32_t num_rows = a.num_rows(), head_dim = a.cells.head_dim, num_kv = a.cells.num_heads;
      const std::size_t stride = a.stride();
      float *const q = a.out, *const k = q + a.num_heads * head_dim, *const v = k + num_kv * head_dim;
      if (a.norm.weight != nullptr)
        ops.rms_norm({a.x, a.x_stride, a.norm.normed, a.num_cols, a.norm.weight, num_rows, 1, a.num_cols,
                      a.norm.epsilon});
      const std::array outputs{device::matmul_output{a.q.weights, q, stride, a.q.bias, false},
                               device::matmul_output{a.k.weights, k, stride, a.k.bias, false},
                               device::matmul_output{a.v.weights, v, stride, a.v.bias, false}};
      const bool normed = a.norm.weight != nullptr;
      ops.matmul({normed ? a.norm.normed : a.x, normed ? a.num_cols : a.x_stride, num_rows, a.num_cols, false,
                  outputs});
      if (a.q.norm != nullptr && a.norms_rows) {
        const auto width = [&](std::uint32_t num_heads) { return num_heads * head_dim; };
        ops.rms_norm({q, stride, q, stride, a.q.norm, num_rows, 1, width(a.num_heads), a.head_epsilon});
        ops.rms_norm({k, stride, k, stride, a.k.norm, num_rows, 1, width(num_kv), a.head_epsilon});
      } else if (a.q.norm != nullptr) {
        ops.rms_norm({q, stride, q, stride, a.q.norm, num_rows, a.num_heads, head_dim, a.head_epsilon});
        ops.rms_norm({k, stride, k, stride, a.k.norm, num_rows, num_kv, head_dim, a.head_epsilon});
      }
      if (a.num_pairs != 0) {
        const float* const query_table = a.query_table != nullptr ? a.query_table : a.table;
        ops.rope({q, stride, query_table, num_rows, a.num_heads, head_dim, a.num_pairs, a.layout});
        ops.rope({k, stride, a.table, num_rows, num_kv, head_dim, a.num_pairs, a.layout});
      }
      ops.kv_write({a.batch, a.cells, k, v, stride});
    });
  }
  made at_once(const layer& of) {
    return make(of, [](device::ops& ops, const device::qkv_args& args) { ops.qkv(args); });
  }

  void expect_equal(const shape& s) {
    const layer of = make_layer(s);
    const made expected = one_after_the_other(of), actual = at_once(of);
    EXPECT_TRUE(same_bits(expected.queries, actual.queries)) << "queries, " << s;
    EXPECT_EQ(expected.keys, actual.keys) << "keys, " << s;
    EXPECT_EQ(expected.values, actual.values) << "values, " << s;
    EXPECT_EQ(expected.scales, actual.scales) << "scales, " << s;
  }
};

TEST_F(qkv, equals_its_ops_in_every_type_of_weights) {
  for (const tensor_type type :
       {tensor_type::q4_0, tensor_type::q4_1, tensor_type::q4_k, tensor_type::q5_0, tensor_type::q5_k,
        tensor_type::q6_k, tensor_type::q8_0, tensor_type::f16, tensor_type::bf16, tensor_type::f8_e4m3})
    expect_equal({.type = type, .type_of_values = type});
  expect_equal({.type = tensor_type::q4_k, .type_of_values = tensor_type::q6_k});
}

TEST_F(qkv, equals_them_in_every_type_of_cells) {
  for (const kv_type cells : {kv_type::f32, kv_type::f16, kv_type::bf16, kv_type::q8})
    expect_equal({.cells = cells});
}

TEST_F(qkv, equals_them_with_and_without_norms_and_bias) {
  for (const bool has_norm : {false, true})
    for (const bool has_bias : {false, true})
      for (const bool has_head_norm : {false, true})
        expect_equal({.has_norm = has_norm, .has_bias = has_bias, .has_head_norm = has_head_norm});
}

TEST_F(qkv, equals_them_for_heads_of_every_size_and_either_rotation) {
  for (const auto layout : {device::rope_layout::half_split, device::rope_layout::interleaved})
    for (const std::uint32_t head_dim : {16U, 80U, 96U, 256U})
      expect_equal({.num_heads = 3,
                    .num_kv_heads = 1,
                    .head_dim = head_dim,
                    .layout = layout,
                    .num_unrotated = head_dim == 96 ? 32U : 0U,
                    .has_head_norm = true});
}

TEST_F(qkv, equals_them_with_a_norm_over_all_heads) {
  for (const bool has_norm : {false, true})
    for (const std::uint32_t num_rows : {1U, 70U})
      expect_equal({.num_rows = num_rows,
                    .has_norm = has_norm,
                    .has_bias = true,
                    .has_head_norm = true,
                    .norms_rows = true});
}

TEST_F(qkv, equals_them_without_rotation) {
  expect_equal({.num_unrotated = 32, .has_head_norm = true});
  expect_equal({.type_of_values = tensor_type::q5_1, .num_unrotated = 32}); // by the ops
}

TEST_F(qkv, equals_them_with_a_rotation_of_queries_only) {
  for (const auto values : {tensor_type::q4_0, tensor_type::q5_1}) // fused, and by the ops
    expect_equal({.num_rows = 70,
                  .type_of_values = values,
                  .layout = device::rope_layout::interleaved,
                  .has_query_table = true});
}

TEST_F(qkv, equals_them_over_several_splits_and_slices_of_rows) {
  ASSERT_EQ(split_columns(6 * 32, 768).num_splits, 3U);
  for (const std::uint32_t num_rows : {1U, 9U, 70U})
    expect_equal({.num_cols = 768, .num_rows = num_rows, .type = tensor_type::q8_0, .has_bias = true});
  ASSERT_EQ(split_columns(6 * 32, 1536).num_splits, 6U); // more than are added at a time
  expect_equal({.num_cols = 1536, .num_rows = 2, .type = tensor_type::q8_0, .has_bias = true});
}

TEST_F(qkv, is_its_ops_where_weights_are_not_streamed) {
  expect_equal({.type = tensor_type::q8_0, .type_of_values = tensor_type::q5_1, .has_head_norm = true});
  expect_equal({.type = tensor_type::f32, .type_of_values = tensor_type::f32, .has_bias = true});
}

TEST_F(qkv, takes_one_kernel_before_the_products_and_one_behind) {
  const layer of = make_layer({.has_bias = true, .has_head_norm = true});
  const auto count = [&](kernel_id kernel) { return num_launches(kernel).value_or(0); };
  const kernel_id unused[] = {kernel_id::rms_norm, kernel_id::rope, kernel_id::kv_write,
                              kernel_id::add_splits};
  std::uint64_t before = 0, after = 0;
  for (const kernel_id kernel : unused) before += count(kernel);
  const made got = at_once(of);
  for (const kernel_id kernel : unused) after += count(kernel);
  EXPECT_EQ(before, after);
  if (num_launches(kernel_id::finish_heads)) {
    EXPECT_EQ(count(kernel_id::arrange_rows), 1U);
    EXPECT_EQ(count(kernel_id::finish_heads), 1U);
  }
  for (const float value : got.normed) ASSERT_EQ(value, guard) << "normed rows went to memory";
}

/// A row of NaN must not affect its neighbours.
TEST_F(qkv, keeps_a_row_that_is_not_finite_to_itself) {
  const shape s{.num_rows = 4, .cells = kv_type::q8};
  layer of = make_layer(s);
  const made expected = at_once(of);
  std::vector<float> x = download(of.args.x, s.num_rows * of.args.x_stride);
  x[of.args.x_stride + 17] = std::numeric_limits<float>::quiet_NaN();
  of.args.x = upload(x);
  const made actual = at_once(of);
  const std::size_t width = std::size_t{s.num_heads} * s.head_dim;
  for (std::size_t i = 0; i < expected.queries.size(); ++i) {
    if (i / width == 1)
      EXPECT_TRUE(std::isnan(actual.queries[i])) << i;
    else
      EXPECT_EQ(expected.queries[i], actual.queries[i]) << i;
  }
}

} // namespace
} // namespace paceline::gpu
