// A mixture of experts on a GPU has the bits of its definition in the CPU's arithmetic, and those of separate
// products and sums in its own; a row has the same bits whatever the other rows are.
#include "gpu/split_columns.hpp"
#include "runtime/device/op_rms_norm.hpp"
#include "tests/gpu/kernels/mixture_test.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace paceline::gpu {
namespace {

using device::tensor_type;
using test::random_tensor;
using test::small_mixture;

class reference_mixture : public mixture_test {
 protected:
  reference_mixture() : mixture_test(arithmetic::reference) {}
};

TEST_F(reference_mixture, equals_the_definition_for_every_type_and_number_of_rows) {
  for (const tensor_type type : test::all_tensor_types) {
    const mixture m = small_mixture(type, 8, 3, random_);
    const auto x = values(std::size_t{29} * m.num_cols);
    const auto expected = test::mixture_reference(m, x);
    const loaded weights = load(m);
    for (const std::uint32_t num_rows : {1U, 2U, 29U}) {
      const auto actual =
          run_mixture(m, weights, {x.begin(), x.begin() + std::size_t{num_rows} * m.num_cols});
      ASSERT_TRUE(same_bits(std::span(expected).first(actual.size()), actual))
          << device::traits_of(type)->name << ", " << num_rows << " rows";
    }
  }
}

TEST_F(reference_mixture, equals_the_definition_with_one_expert_all_experts_and_many) {
  for (const auto& [num_experts, num_used] :
       {std::pair{1U, 1U}, {4U, 4U}, {33U, 1U}, {128U, 8U}, {1024U, 32U}}) {
    const mixture m = small_mixture(tensor_type::q8_0, num_experts, num_used, random_);
    const auto x = values(std::size_t{num_experts > 100 ? 3U : 20U} * m.num_cols);
    ASSERT_TRUE(same_bits(test::mixture_reference(m, x), run_mixture(m, x)))
        << num_used << " of " << num_experts;
  }
}

TEST_F(reference_mixture, weighs_inputs_and_takes_two_planes) {
  for (const tensor_type type : {tensor_type::q4_k, tensor_type::bf16}) {
    mixture m = small_mixture(type, 8, 2, random_);
    const auto x = values(std::size_t{13} * m.num_cols);
    m.two_planes = true;
    EXPECT_TRUE(same_bits(test::mixture_reference(m, x), run_mixture(m, x)));
    m.weigh_inputs = true;
    m.routing.gating = device::expert_gating::sigmoid;
    EXPECT_TRUE(same_bits(test::mixture_reference(m, x), run_mixture(m, x)));
  }
}

TEST_F(reference_mixture, divides_more_rows_than_its_memory_has_room_for) {
  mixture m = small_mixture(tensor_type::f16, 2, 1, random_);
  const auto x = values((std::size_t{expert_products::most_rows} + 6) * m.num_cols);
  const auto norm = values(m.num_cols);
  const auto together = run_mixture(m, x, {.norm = norm});
  const std::size_t in_last = 6 * m.num_cols, out_last = 6 * m.num_outputs;
  const auto last = run_mixture(m, {x.end() - static_cast<std::ptrdiff_t>(in_last), x.end()}, {.norm = norm});
  EXPECT_TRUE(same_bits(last, std::span(together).last(out_last)));
}

class any_mixture : public mixture_test, public testing::WithParamInterface<arithmetic> {
 protected:
  any_mixture() : mixture_test(GetParam()) {}
};

TEST_P(any_mixture, equals_its_parts_for_every_type_and_number_of_rows) {
  for (const tensor_type type : test::all_tensor_types) {
    const mixture m = small_mixture(type, 8, 3, random_);
    const auto x = rows(25, m.num_cols);
    for (const std::uint32_t num_rows : {1U, 3U, 25U})
      ASSERT_NO_FATAL_FAILURE(
          expect_as_separately(m, {x.begin(), x.begin() + std::size_t{num_rows} * m.num_cols}));
  }
}

TEST_P(any_mixture, equals_its_parts_where_experts_have_more_rows_than_a_block) {
  for (const tensor_type type : {tensor_type::q4_1, tensor_type::q5_k, tensor_type::f16, tensor_type::q5_1}) {
    const mixture m = small_mixture(type, 2, 1, random_);
    ASSERT_NO_FATAL_FAILURE(expect_as_separately(m, rows(150, m.num_cols)));
  }
}

TEST_P(any_mixture, equals_its_parts_where_formats_differ) {
  mixture m = small_mixture(tensor_type::q4_k, 4, 2, random_);
  const mixture other = small_mixture(tensor_type::q6_k, 4, 2, random_);
  m.down = other.down;
  m.router = random_tensor(tensor_type::bf16, 4, m.num_cols, random_);
  ASSERT_NO_FATAL_FAILURE(expect_as_separately(m, rows(7, m.num_cols)));
  m.up = other.up;
  ASSERT_NO_FATAL_FAILURE(expect_as_separately(m, rows(7, m.num_cols)));
  m.gate = small_mixture(tensor_type::q2_k, 4, 2, random_).gate;
  ASSERT_NO_FATAL_FAILURE(expect_as_separately(m, rows(7, m.num_cols)));
}

TEST_P(any_mixture, takes_a_bias_of_the_router_and_adds_to_what_is_there) {
  mixture m = small_mixture(tensor_type::q8_0, 8, 2, random_);
  const auto x = rows(11, m.num_cols);
  const how extras{.router_bias = values(8, 20), .added_to = values(std::size_t{11} * m.num_outputs)};
  EXPECT_FALSE(same_bits(separately(m, x), separately(m, x, {.router_bias = extras.router_bias})));
  ASSERT_NO_FATAL_FAILURE(expect_as_separately(m, x, extras));
  m.weigh_inputs = true;
  ASSERT_NO_FATAL_FAILURE(expect_as_separately(m, x, extras));
}

TEST_P(any_mixture, norms_its_rows_and_adds_to_them_in_place) {
  mixture m = small_mixture(tensor_type::q8_0, 8, 3, random_);
  m.num_outputs = m.num_cols;
  for (stored_tensor& down : m.down) down = random_tensor(tensor_type::q8_0, m.num_outputs, m.inner, random_);
  const auto x = rows(9, m.num_cols), weight = values(m.num_cols);
  float* const normed = upload(x);
  run([&](device::ops& ops) {
    ops.rms_norm({normed, m.num_cols, normed, m.num_cols, upload(weight), 9, 1, m.num_cols, mixture_epsilon});
  });
  const auto expected = separately(m, download(normed, x.size()), {.added_to = x});
  EXPECT_TRUE(same_bits(expected, run_mixture(m, x, {.norm = weight, .in_place = true})));
}

TEST_P(any_mixture, a_row_has_the_same_bits_alone_and_among_others) {
  for (const tensor_type type : {tensor_type::q4_k, tensor_type::q5_1, tensor_type::bf16}) {
    mixture m = small_mixture(type, 6, 2, random_);
    m.num_cols = 768; // three splits
    m.router = random_tensor(tensor_type::f32, 6, m.num_cols, random_);
    for (std::uint32_t e = 0; e < 6; ++e)
      m.gate[e] = random_tensor(type, m.inner, m.num_cols, random_),
      m.up[e] = random_tensor(type, m.inner, m.num_cols, random_);
    constexpr std::uint32_t num_rows = 24;
    const auto x = rows(num_rows, m.num_cols);
    const loaded weights = load(m);
    const auto together = run_mixture(m, weights, x);
    std::vector<float> reversed;
    for (std::uint32_t r = num_rows; r-- > 0;)
      reversed.insert(reversed.end(), x.begin() + r * m.num_cols, x.begin() + (r + 1) * m.num_cols);
    const auto other_way = run_mixture(m, weights, reversed);
    for (std::uint32_t r = 0; r < num_rows; ++r) {
      const auto expected = std::span(together).subspan(r * m.num_outputs, m.num_outputs);
      const auto alone =
          run_mixture(m, weights, {x.begin() + r * m.num_cols, x.begin() + (r + 1) * m.num_cols});
      ASSERT_TRUE(same_bits(expected, alone)) << device::traits_of(type)->name << ", row " << r;
      ASSERT_TRUE(same_bits(expected,
                            std::span(other_way).subspan((num_rows - 1 - r) * m.num_outputs, m.num_outputs)))
          << device::traits_of(type)->name << ", row " << r << " at another place";
    }
  }
}

TEST_P(any_mixture, a_row_that_is_not_finite_spoils_itself_only) {
  const mixture m = small_mixture(tensor_type::q4_1, 8, 3, random_);
  auto x = rows(12, m.num_cols);
  const loaded weights = load(m);
  const auto clean = run_mixture(m, weights, x);
  x[5 * m.num_cols + 7] = std::numeric_limits<float>::quiet_NaN();
  x[8 * m.num_cols + 9] = std::numeric_limits<float>::infinity();
  const auto spoilt = run_mixture(m, weights, x);
  for (std::uint32_t r = 0; r < 12; ++r) {
    const auto after = std::span(spoilt).subspan(r * m.num_outputs, m.num_outputs);
    if (r != 5 && r != 8)
      EXPECT_TRUE(same_bits(std::span(clean).subspan(r * m.num_outputs, m.num_outputs), after)) << r;
    else
      for (const float y : after) EXPECT_FALSE(std::isfinite(y)) << r;
  }
}

TEST_P(any_mixture, refuses_weights_of_another_device_or_shape) {
  const mixture m = small_mixture(tensor_type::q8_0, 4, 2, random_);
  const loaded weights = load(m);
  const auto plain = *gpu_->weights().device::weight_memory::make_set("plain", [&] {
    std::vector<std::unique_ptr<const device::matrix>> one;
    for (const stored_tensor& gate : m.gate) one.push_back(pack(gate));
    return one;
  }());
  device::expert_mixture_args args;
  args.num_rows = 1;
  args.num_cols = args.x_stride = m.num_cols;
  args.routing = m.routing;
  args.router = weights.router.get();
  args.gate = plain.get(), args.up = weights.up.get(), args.down = weights.down.get();
  const auto failure_of = [&] {
    const auto done = stream_->submit("mixture", {}, [&](device::ops& ops) { ops.expert_mixture(args); });
    done.wait();
    return done.failure() ? done.failure()->message() : "";
  };
  EXPECT_NE(failure_of().find("expert_mixture: the weights are not of cuda:0"), std::string::npos);
  args.gate = weights.down.get();
  EXPECT_NE(failure_of().find("gate and up have different shapes"), std::string::npos);
  args.gate = weights.gate.get(), args.num_cols = 32;
  EXPECT_NE(failure_of().find("rows of 32 values with gates of 32 x 64"), std::string::npos) << failure_of();
  args.num_cols = m.num_cols, args.routing.num_used = 5;
  EXPECT_NE(failure_of().find("5 of 4 experts"), std::string::npos);
}

TEST_P(any_mixture, matrices_of_a_set_are_also_matrices) {
  for (const tensor_type type : {tensor_type::q5_0, tensor_type::bf16, tensor_type::q2_k, tensor_type::f32}) {
    const mixture m = small_mixture(type, 3, 1, random_);
    const auto set = set_of(m.gate);
    const auto x = rows(70, m.num_cols); // more than strict mode multiplies at a time
    std::uint64_t size_bytes = 0;
    for (std::uint32_t e = 0; e < 3; ++e) {
      const auto alone = pack(m.gate[e]);
      size_bytes += set->at(e).size_bytes();
      EXPECT_GE(set->at(e).size_bytes(), alone->size_bytes());
      EXPECT_LT(set->at(e).size_bytes(), alone->size_bytes() + 256);
      EXPECT_TRUE(same_bits(product(*alone, x), product(set->at(e), x))) << device::traits_of(type)->name;
    }
    EXPECT_EQ(set->size_bytes(), size_bytes);
  }
}

const auto name_of = [](const auto& of) {
  return of.param == arithmetic::reference     ? "reference"
         : of.param == arithmetic::sixteen_bit ? "sixteen_bit"
                                               : "fast";
};
INSTANTIATE_TEST_SUITE_P(gpu, any_mixture,
                         testing::Values(arithmetic::reference, arithmetic::sixteen_bit, arithmetic::fast),
                         name_of);

class streamed_mixture : public mixture_test {
 protected:
  streamed_mixture() : mixture_test(arithmetic::sixteen_bit) {}

  mixture mixture_of(tensor_type type, std::uint32_t num_experts, std::uint32_t num_used,
                     std::uint32_t num_cols, std::uint32_t inner, std::uint32_t num_outputs) {
    mixture m;
    m.num_cols = num_cols, m.inner = inner, m.num_outputs = num_outputs;
    m.routing.num_experts = num_experts;
    m.routing.num_used = num_used;
    m.router = random_tensor(tensor_type::f32, num_experts, num_cols, random_);
    for (std::uint32_t e = 0; e < num_experts; ++e) {
      m.gate.push_back(random_tensor(type, inner, num_cols, random_));
      m.up.push_back(random_tensor(type, inner, num_cols, random_));
      m.down.push_back(random_tensor(type, num_outputs, inner, random_));
    }
    return m;
  }
  /// Launches of add_splits during `work`, if they are counted.
  template <class Work>
  std::optional<std::uint64_t> sums_of_splits(const Work& work) {
    const auto before = num_launches(kernel_id::add_splits);
    work();
    const auto after = num_launches(kernel_id::add_splits);
    return before ? std::optional(*after - *before) : std::nullopt;
  }
};

TEST_F(streamed_mixture, equals_its_parts_over_several_splits_and_blocks_of_outputs) {
  for (const tensor_type type : {tensor_type::q4_k, tensor_type::bf16, tensor_type::q6_k}) {
    const mixture m = mixture_of(type, 5, 2, 768, 512, 150);
    ASSERT_EQ(split_columns(m.inner, m.num_cols).num_splits, 3U);
    ASSERT_EQ(split_columns(m.num_outputs, m.inner).num_splits, 2U);
    for (const std::uint32_t num_rows : {1U, 12U}) {
      const auto x = rows(num_rows, m.num_cols);
      const auto expected = separately(m, x);
      const loaded weights = load(m);
      std::vector<float> actual;
      const auto sums = sums_of_splits([&] { actual = run_mixture(m, weights, x); });
      ASSERT_TRUE(same_bits(expected, actual))
          << device::traits_of(type)->name << ", " << num_rows << " rows";
      if (sums) {
        EXPECT_EQ(*sums, 1U) << "of gate and up; the outputs are added up with their slots";
      }
    }
  }
}

TEST_F(streamed_mixture, equals_its_parts_where_a_block_adds_up_its_splits) {
  for (const mixture& m : {mixture_of(tensor_type::q4_k, 64, 4, 512, 256, 20),    // gate and up
                           mixture_of(tensor_type::bf16, 64, 4, 64, 512, 500)}) { // down
    ASSERT_EQ(std::max(split_columns(m.inner, m.num_cols).num_splits,
                       split_columns(m.num_outputs, m.inner).num_splits),
              2U);
    const auto x = rows(16, m.num_cols);
    const auto expected = separately(m, x);
    const loaded weights = load(m);
    std::vector<float> actual;
    const auto sums = sums_of_splits([&] { actual = run_mixture(m, weights, x); });
    ASSERT_TRUE(same_bits(expected, actual)) << device::traits_of(m.gate[0].type)->name;
    if (sums) {
      EXPECT_EQ(*sums, 0U);
    }
  }
}

} // namespace
} // namespace paceline::gpu
