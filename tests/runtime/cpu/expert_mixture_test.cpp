// A mixture of experts has the bits of its definition, whatever the other rows, the threads and the kernel
// level.
#include "runtime/base/check.hpp"
#include "runtime/cpu/cpu_ops.hpp"
#include "runtime/cpu/packed_matrix.hpp"
#include "runtime/cpu/thread_team.hpp"
#include "runtime/cpu/weight_arena.hpp"
#include "runtime/device/op_expert_mixture.hpp"
#include "tests/support/mixtures.hpp"
#include "tests/support/stored_tensors.hpp"
#include "tests/support/tensor_compare.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace paceline::cpu {
namespace {

using device::tensor_type;
using test::guarded_floats;
using test::mixture;
using test::mixture_reference;
using test::same_bits;
using test::stored_tensor;

/// Weights of a host device without streams.
class arena_memory final : public device::weight_memory {
 public:
  expected<std::unique_ptr<const device::matrix>> pack(std::string_view name,
                                                       const device::tensor_view& tensor,
                                                       const device::bytes_done& done,
                                                       const device::bytes_needed& needed) override {
    return pack_matrix(name, tensor, arena_, done, needed);
  }

 private:
  weight_arena arena_;
};

class expert_mixture : public testing::TestWithParam<kernel_level> {
 protected:
  void SetUp() override {
    if (!choose_kernel_level(GetParam())) GTEST_SKIP() << "this machine does not run this level";
    seed_ = std::random_device{}();
    random_.seed(seed_);
  }
  void TearDown() override {
    if (HasFailure()) printf("seed %u\n", seed_);
  }

  mixture make(tensor_type type, std::uint32_t num_experts, std::uint32_t num_used) {
    return test::small_mixture(type, num_experts, num_used, random_);
  }

  std::vector<float> rows(std::uint32_t num_rows, std::uint32_t num_cols) {
    std::normal_distribution<float> normal;
    std::vector<float> x(std::size_t{num_rows} * num_cols);
    for (float& value : x) value = normal(random_);
    return x;
  }

  std::vector<float> run(const mixture& m, std::span<const float> x, std::uint32_t num_threads,
                         const float* added_to = nullptr) {
    arena_memory arena;
    device::weight_memory& memory = arena;
    const auto router = *memory.pack("router", m.router.view());
    const auto set = [&](const std::vector<stored_tensor>& tensors) {
      std::vector<std::unique_ptr<const device::matrix>> matrices;
      for (const stored_tensor& tensor : tensors) matrices.push_back(*memory.pack("expert", tensor.view()));
      return *memory.make_set("experts", std::move(matrices));
    };
    const auto gate = set(m.gate), up = set(m.up), down = set(m.down);
    thread_team::options opts;
    opts.num_threads = num_threads;
    thread_team team(opts);
    cpu_ops ops(team, GetParam());
    device::expert_mixture_args args;
    args.x = x.data();
    args.x_stride = args.num_cols = m.num_cols;
    args.num_rows = static_cast<std::uint32_t>(x.size() / m.num_cols);
    args.two_planes = m.two_planes;
    args.router = router.get();
    args.routing = m.routing;
    args.gate = gate.get();
    args.up = up.get();
    args.down = down.get();
    args.weigh_inputs = m.weigh_inputs;
    guarded_floats workspace(args.num_rows * device::expert_values_per_row(m.routing, m.inner, m.num_outputs,
                                                                           m.weigh_inputs ? m.num_cols : 0));
    guarded_floats out(std::size_t{args.num_rows} * m.num_outputs, args.num_rows % 5);
    args.workspace = workspace.data();
    std::vector<float> normed(x.size()), in_place;
    if (!norm_.empty()) {
      args.norm = {norm_.data(), 1e-6F, normed.data()};
      in_place.assign(x.begin(), x.end());
    }
    args.out = out.data();
    args.out_stride = m.num_outputs;
    args.add = added_to != nullptr;
    if (args.add) std::copy_n(added_to, out.values().size(), out.data());
    if (!in_place.empty()) {
      args.x = args.out = in_place.data();
      ops.expert_mixture(args);
      return in_place;
    }
    ops.expert_mixture(args);
    EXPECT_TRUE(workspace.intact());
    EXPECT_TRUE(out.intact());
    return {out.values().begin(), out.values().end()};
  }

  std::mt19937 random_;
  std::vector<float> norm_; ///< if it has values, rows are normed, and the output is added to them

 private:
  unsigned seed_ = 0;
};

TEST_P(expert_mixture, equals_the_definition_for_every_type_and_number_of_rows) {
  constexpr std::uint32_t most_rows = 33;
  for (const tensor_type type : test::all_tensor_types) {
    const mixture m = make(type, 8, 3);
    const auto x = rows(most_rows, m.num_cols);
    const auto expected = mixture_reference(m, x);
    for (const std::uint32_t num_rows : {1U, 2U, 3U, 4U, 5U, 8U, 9U, 17U, 33U}) {
      const auto actual = run(m, std::span(x).first(std::size_t{num_rows} * m.num_cols), 1 + num_rows % 2);
      ASSERT_TRUE(same_bits(std::span(expected).first(actual.size()), actual))
          << device::traits_of(type)->name << ", " << num_rows << " rows";
    }
  }
}

TEST_P(expert_mixture, equals_the_definition_when_every_row_uses_one_expert_or_all) {
  for (const auto& [num_experts, num_used] : {std::pair{1U, 1U}, {4U, 4U}, {32U, 1U}, {128U, 8U}}) {
    const mixture m = make(tensor_type::q8_0, num_experts, num_used);
    const auto x = rows(40, m.num_cols);
    ASSERT_TRUE(same_bits(mixture_reference(m, x), run(m, x, 2))) << num_used << " of " << num_experts;
  }
}

TEST_P(expert_mixture, weighs_inputs_adds_and_takes_two_planes) {
  mixture m = make(tensor_type::q4_k, 8, 2);
  const auto x = rows(6, m.num_cols);
  const auto plain = mixture_reference(m, x);
  m.two_planes = true;
  const auto precise = mixture_reference(m, x);
  EXPECT_FALSE(same_bits(plain, precise));
  EXPECT_TRUE(same_bits(precise, run(m, x, 2)));
  m.two_planes = false;
  m.weigh_inputs = true;
  m.routing.gating = device::expert_gating::sigmoid;
  EXPECT_TRUE(same_bits(mixture_reference(m, x), run(m, x, 1)));
  m.weigh_inputs = false;
  const auto before = rows(6, m.num_outputs);
  auto sum = mixture_reference(m, x);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = before[i] + sum[i];
  EXPECT_TRUE(same_bits(sum, run(m, x, 2, before.data())));
}

TEST_P(expert_mixture, norms_its_rows_and_adds_to_them_in_place) {
  mixture m = make(tensor_type::q8_0, 8, 3);
  m.num_outputs = m.num_cols;
  for (std::uint32_t e = 0; e < 8; ++e)
    m.down[e] = test::random_tensor(tensor_type::q8_0, m.num_outputs, m.inner, random_);
  for (const std::uint32_t num_rows : {1U, 40U}) { // on the caller, and on the team
    const auto x = rows(num_rows, m.num_cols), weight = rows(1, m.num_cols);
    std::vector<float> normed(x.size());
    thread_team team({});
    cpu_ops ops(team, GetParam());
    ops.rms_norm(
        {x.data(), m.num_cols, normed.data(), m.num_cols, weight.data(), num_rows, 1, m.num_cols, 1e-6F});
    auto expected = mixture_reference(m, normed);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = x[i] + expected[i];
    norm_ = weight;
    EXPECT_TRUE(same_bits(expected, run(m, x, 2, x.data())));
    norm_.clear();
    m.weigh_inputs = true;
    EXPECT_TRUE(same_bits(mixture_reference(m, x), run(m, x, 2)));
    m.weigh_inputs = false;
  }
}

TEST_P(expert_mixture, refuses_weights_of_another_number_of_experts) {
  mixture m = make(tensor_type::f32, 4, 2);
  m.gate.pop_back();
  EXPECT_THROW(run(m, rows(1, m.num_cols), 1), check_failure);
  mixture n = make(tensor_type::f32, 4, 5);
  EXPECT_THROW(run(n, rows(1, n.num_cols), 1), check_failure);
}

INSTANTIATE_TEST_SUITE_P(levels, expert_mixture,
                         testing::Values(kernel_level::scalar, kernel_level::avx2, kernel_level::avx_vnni,
                                         kernel_level::avx512_vnni),
                         [](const auto& test) { return std::string(to_string(test.param)); });

} // namespace
} // namespace paceline::cpu
