// Ops of a GPU's 16-bit arithmetic as graphs have the same bits as without graphs.
#include "runtime/device/op_add_normed.hpp"
#include "runtime/device/op_elementwise.hpp"
#include "runtime/device/op_gated_matmul.hpp"
#include "runtime/device/op_matmul.hpp"
#include "runtime/device/op_qkv.hpp"
#include "tests/gpu/kernels/kv_pools.hpp"
#include "tests/support/tensor_compare.hpp"

#include <algorithm>
#include <array>
#include <functional>

namespace paceline::gpu::kernels_in_graphs_test {
namespace {

using device::tensor_type;
using test::random_tensor;
using test::same_bits;

constexpr float guard = 12345.678F;
constexpr std::uint32_t too_many_rows = 65; // for a graph

class kernels_in_graphs : public kv_pool_test {
 protected:
  kernels_in_graphs() : kv_pool_test(arithmetic::sixteen_bit) {}

  /// An op with arguments, and the place of its results.
  struct prepared {
    std::function<void(device::ops&)> op;
    const float* out;
    std::size_t size;
  };
  /// The inputs of attention.
  struct attended {
    explicit attended(test::paged_sequences sequences) : paged(std::move(sequences)) {}
    test::paged_sequences paged;
    std::vector<device::batch_entry> rows;
  };
  /// The op for the `time`th time. It always has the same launches, and its own memory.
  using preparation = std::function<prepared(std::uint32_t time)>;

  void expect_the_same_bits(const preparation& prepare) {
    float* const numbers = upload(std::vector<float>(std::size_t{2} * too_many_rows));
    const auto many_rows = [&](device::ops& ops) {
      ops.gather({numbers, 1, numbers + too_many_rows, 1, nullptr, too_many_rows, 1});
    };
    for (std::uint32_t time = 0; time < 5; ++time) {
      random_.seed(time);
      const prepared direct = prepare(time);
      // Commands between ops over many rows are issued directly, even if memory grows meanwhile.
      EXPECT_EQ(num_graphs_of([&](device::ops& ops) { many_rows(ops), direct.op(ops), many_rows(ops); }), 0U);
      const auto expected = download(direct.out, direct.size);
      random_.seed(time);
      const std::size_t first = num_uploads();
      const prepared again = prepare(time);
      const auto contents = contents_since(first);
      for (std::uint32_t run = 0; run < 3; ++run) { // as commands, and twice as a graph
        random_.seed(100 + run);
        const prepared other = prepare(time); // leaves other values where ops keep theirs between kernels
        this->run([&](device::ops& ops) { many_rows(ops), other.op(ops), many_rows(ops); });
        restore(first, contents);
        EXPECT_EQ(num_graphs_of(again.op), run == 0 ? 0U : expected_graphs_)
            << "time " << time << ", run " << run;
        EXPECT_TRUE(same_bits(expected, download(again.out, again.size)))
            << "time " << time << ", run " << run;
      }
    }
  }

  /// The number of graphs as which a program is launched. If graphs are not counted, returns the expected
  /// number.
  std::uint32_t num_graphs_of(const std::function<void(device::ops&)>& program) {
    const auto before = num_graph_launches();
    expected_graphs_ = before ? 1 : 0;
    run(program);
    return before ? *num_graph_launches() - *before : 0;
  }

  prepared attention(std::uint32_t length, std::uint32_t num_chain, std::uint32_t window) {
    const attention_case c{4, 2, 32, 16, kv_type::f16, window, 0};
    const std::uint32_t num_blocks = length / c.block_size + 8;
    const auto of = std::make_shared<attended>(test::paged_sequences(c.block_size, num_blocks, random_()));
    of->paged.add_sequence(length);
    two_pools pools(c, num_blocks);
    fill(pools, of->paged, c);
    of->rows = of->paged.tree_rows(0, length - 20 - num_chain, {-1, 0, 0, 1, 2, 2, 5, 3});
    for (const auto& row : of->paged.chain_rows(0, length - num_chain, length)) of->rows.push_back(row);
    const std::size_t width = std::size_t{c.num_heads} * c.head_dim, size = of->rows.size() * width;
    const device::attention_args args{nullptr,
                                      there(pools),
                                      upload(values(size)),
                                      width,
                                      upload(std::vector<float>(size, guard)),
                                      width,
                                      c.num_heads,
                                      0.125F,
                                      c.soft_cap,
                                      c.window};
    return {[of, args](device::ops& ops) {
              const device::row_batch batch = of->paged.batch(of->rows);
              device::attention_args with_batch = args;
              with_batch.batch = &batch;
              ops.attention(with_batch);
            },
            args.out, size};
  }

  prepared gated_matmul(std::uint32_t num_rows, std::uint32_t width, std::uint32_t num_cols,
                        device::activation act) {
    const auto gate = std::shared_ptr(pack(random_tensor(tensor_type::q8_0, width, num_cols, random_)));
    const auto up = std::shared_ptr(pack(random_tensor(tensor_type::q8_0, width, num_cols, random_)));
    const std::size_t size = std::size_t{num_rows} * width;
    const float* const x = upload(values(std::size_t{num_rows} * num_cols, 0.1F));
    float* const between = upload(std::vector<float>(2 * size, guard));
    float* const out = upload(std::vector<float>(size, guard));
    return {
        [=](device::ops& ops) {
          ops.gated_matmul(
              {x, num_cols, num_rows, num_cols, {}, false, gate.get(), up.get(), between, out, width, act});
        },
        out, size};
  }

  prepared add_normed() {
    constexpr std::uint32_t width = 100, num_rows = 3;
    constexpr std::size_t size = std::size_t{width} * num_rows;
    const device::add_normed_args args{upload(values(size)),
                                       width,
                                       upload(values(size)),
                                       width,
                                       upload(values(width)),
                                       num_rows,
                                       width,
                                       1e-6F};
    return {[=](device::ops& ops) { ops.add_normed(args); }, args.hidden, size};
  }

  /// Queries; the keys and values among them go to cells that are not read.
  prepared qkv(std::uint32_t num_rows, std::uint32_t num_cols) {
    constexpr std::uint32_t head_dim = 32, num_heads = 4;
    const attention_case c{num_heads, 1, head_dim, 16, kv_type::bf16, 0, 0};
    const auto of = std::make_shared<attended>(test::paged_sequences(c.block_size, 8, random_()));
    of->paged.add_sequence(num_rows);
    of->rows = of->paged.every_slot(0);
    two_pools pools(c, 8);
    const auto matrix = [&](std::uint32_t heads) {
      return std::shared_ptr(pack(random_tensor(tensor_type::q8_0, heads * head_dim, num_cols, random_)));
    };
    const auto q = matrix(num_heads), k = matrix(1), v = matrix(1);
    device::qkv_args args;
    args.x = upload(values(std::size_t{num_rows} * num_cols, 0.1F));
    args.x_stride = args.num_cols = num_cols;
    args.norm = {upload(values(num_cols)), 1e-5F,
                 upload(std::vector<float>(std::size_t{num_rows} * num_cols))};
    args.q = {q.get()}, args.k = {k.get()}, args.v = {v.get()};
    args.num_heads = num_heads;
    args.num_pairs = head_dim / 2;
    args.table = upload(values(std::size_t{num_rows} * head_dim));
    args.cells = there(pools);
    args.out = upload(std::vector<float>(num_rows * args.stride(), guard));
    return {[=](device::ops& ops) {
              const device::row_batch batch = of->paged.batch(of->rows);
              device::qkv_args with_batch = args;
              with_batch.batch = &batch;
              with_batch.q.weights = q.get(), with_batch.k.weights = k.get(), with_batch.v.weights = v.get();
              ops.qkv(with_batch);
            },
            args.out, num_rows * args.stride()};
  }

 private:
  std::uint32_t expected_graphs_ = 0;
};

TEST_F(kernels_in_graphs, attention_of_other_lengths_and_windows) {
  // Four splits, or three instead of four.
  constexpr std::uint32_t lengths[] = {400, 290, 390, 300, 500};
  expect_the_same_bits([&](std::uint32_t time) {
    return attention(lengths[time], 3, time == 4 ? 300 : time % 2 == 0 ? 0 : 200);
  });
}

TEST_F(kernels_in_graphs, gated_products_in_one_split) {
  expect_the_same_bits([&](std::uint32_t time) {
    return gated_matmul(5, 37, 256, time % 2 == 0 ? device::activation::silu : device::activation::gelu_tanh);
  });
}

TEST_F(kernels_in_graphs, gated_products_in_several_splits) {
  expect_the_same_bits([&](std::uint32_t time) {
    return gated_matmul(9, 150, 768,
                        time % 2 == 0 ? device::activation::silu : device::activation::gelu_tanh);
  });
}

TEST_F(kernels_in_graphs, additions_of_what_is_normed) {
  expect_the_same_bits([&](std::uint32_t) { return add_normed(); });
}

TEST_F(kernels_in_graphs, what_attention_is_given_in_one_split_and_in_several) {
  expect_the_same_bits([&](std::uint32_t) { return qkv(3, 256); });
  expect_the_same_bits([&](std::uint32_t) { return qkv(10, 768); });
}

TEST_F(kernels_in_graphs, ops_over_many_rows_are_none_however_few_their_tiles_and_slices) {
  const prepared attend = attention(200, too_many_rows, 0);
  const prepared gated = gated_matmul(too_many_rows, 37, 256, device::activation::silu);
  const prepared given = qkv(too_many_rows, 256);
  const auto weights = pack(random_tensor(tensor_type::bf16, 40, 64, random_));
  const float* const x = upload(values(std::size_t{too_many_rows} * 64));
  const std::array outputs{device::matmul_output{
      weights.get(), upload(std::vector<float>(std::size_t{too_many_rows} * 40)), 40, nullptr, false}};
  const auto multiply = [&](device::ops& ops) { ops.matmul({x, 64, too_many_rows, 64, false, outputs}); };
  for (int time = 0; time < 4; ++time) {
    EXPECT_EQ(num_graphs_of(attend.op), 0U) << "attention";
    EXPECT_EQ(num_graphs_of(gated.op), 0U) << "a gated product";
    EXPECT_EQ(num_graphs_of(given.op), 0U) << "what attention is given";
    EXPECT_EQ(num_graphs_of(multiply), 0U) << "a product";
  }
}

} // namespace
} // namespace paceline::gpu::kernels_in_graphs_test
