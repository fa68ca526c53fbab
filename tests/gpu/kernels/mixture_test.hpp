#pragma once

#include "gpu/expert_products.hpp"
#include "runtime/device/op_expert_mixture.hpp"
#include "runtime/device/op_gated_matmul.hpp"
#include "tests/gpu/kernels/product_test.hpp"
#include "tests/support/mixtures.hpp"
#include "tests/support/tensor_compare.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace paceline::gpu {

using test::mixture;
using test::same_bits;
using test::stored_tensor;

inline constexpr float mixture_epsilon = 1e-6F; ///< of the norms of its rows

/// What is done with the rows in addition to the mixture.
struct how {
  std::vector<float> norm = {};        ///< weights; none: no norm
  std::vector<float> router_bias = {}; ///< or none
  std::vector<float> added_to = {};    ///< `out` before, if the result is added
  bool in_place = false;               ///< the result is added to the rows
};

/// Runs mixtures as one op and as separate ones.
class mixture_test : public product_test {
 protected:
  using product_test::product_test;

  struct loaded {
    std::unique_ptr<const device::matrix> router;
    std::unique_ptr<const device::matrix_set> gate, up, down;
  };
  std::unique_ptr<const device::matrix_set> set_of(const std::vector<stored_tensor>& tensors) {
    std::vector<std::unique_ptr<const device::matrix>> matrices;
    for (const stored_tensor& tensor : tensors) matrices.push_back(pack(tensor));
    auto set = gpu_->weights().make_set("experts", std::move(matrices));
    EXPECT_TRUE(set) << set.error().message();
    return *std::move(set);
  }
  loaded load(const mixture& m) { return {pack(m.router), set_of(m.gate), set_of(m.up), set_of(m.down)}; }

  /// out[num_rows][num_outputs]; rows of x and out are some values apart, and nothing lies between them
  /// afterwards that was not there before.
  std::vector<float> run_mixture(const mixture& m, const loaded& weights, const std::vector<float>& x,
                                 const how& extras = {}) {
    const auto num_rows = static_cast<std::uint32_t>(x.size() / m.num_cols);
    const std::size_t x_stride = m.num_cols + 5;
    device::expert_mixture_args args;
    float* const rows = upload(spread(x, num_rows, x_stride));
    args.x = rows;
    args.x_stride = x_stride;
    args.num_rows = num_rows;
    args.num_cols = m.num_cols;
    args.two_planes = m.two_planes;
    args.router = weights.router.get();
    args.routing = m.routing;
    if (m.routing.selection_bias != nullptr)
      args.routing.selection_bias = upload(per_expert(m, m.routing.selection_bias));
    if (m.routing.output_scales != nullptr)
      args.routing.output_scales = upload(per_expert(m, m.routing.output_scales));
    args.gate = weights.gate.get();
    args.up = weights.up.get();
    args.down = weights.down.get();
    args.weigh_inputs = m.weigh_inputs;
    if (!extras.router_bias.empty()) args.router_bias = upload(extras.router_bias);
    if (!extras.norm.empty())
      args.norm = {upload(extras.norm), mixture_epsilon, upload(std::vector<float>(x.size(), guard))};
    const std::size_t num_values = num_rows * device::expert_values_per_row(m.routing, m.inner, m.num_outputs,
                                                                            m.weigh_inputs ? m.num_cols : 0);
    float* const workspace = upload(std::vector<float>(num_values + 64, guard));
    args.workspace = workspace;
    args.add = extras.in_place || !extras.added_to.empty();
    args.out_stride = extras.in_place ? x_stride : m.num_outputs + 3;
    std::vector<float> before(num_rows * args.out_stride, guard);
    if (!extras.added_to.empty()) before = spread(extras.added_to, num_rows, args.out_stride);
    args.out = extras.in_place ? rows : upload(before);
    run([&](device::ops& ops) { ops.expert_mixture(args); });
    const auto behind = download(workspace + num_values, 64);
    EXPECT_TRUE(std::ranges::all_of(behind, [](float v) { return v == guard; }))
        << "wrote behind its workspace";
    return gathered(download(args.out, num_rows * args.out_stride), num_rows, m.num_outputs);
  }
  std::vector<float> run_mixture(const mixture& m, const std::vector<float>& x, const how& extras = {}) {
    return run_mixture(m, load(m), x, extras);
  }

  /// The mixture as separate ops of the device: the logits, and for each expert the rows that use it;
  /// selection and sums on the host.
  std::vector<float> separately(const mixture& m, const std::vector<float>& x, const how& extras = {}) {
    const std::size_t num_rows = x.size() / m.num_cols, num_used = m.routing.num_used;
    const auto logits = product(*pack(m.router), x, extras.router_bias);
    std::vector<device::used_expert> used(num_rows * num_used);
    for (std::size_t r = 0; r < num_rows; ++r)
      device::route(m.routing, std::span(logits).subspan(r * m.routing.num_experts, m.routing.num_experts),
                    std::span(used).subspan(r * num_used, num_used));
    std::vector<float> outputs(used.size() * m.num_outputs);
    for (std::uint32_t e = 0; e < m.routing.num_experts; ++e) {
      std::vector<std::size_t> pairs;
      std::vector<float> inputs;
      for (std::size_t i = 0; i < used.size(); ++i) {
        if (used[i].index != static_cast<std::int32_t>(e)) continue;
        pairs.push_back(i);
        for (std::uint32_t k = 0; k < m.num_cols; ++k) {
          const float value = x[i / num_used * m.num_cols + k];
          inputs.push_back(m.weigh_inputs ? value * used[i].weight : value);
        }
      }
      if (pairs.empty()) continue;
      const auto of_expert = outputs_of(m, e, inputs);
      for (std::size_t i = 0; i < pairs.size(); ++i)
        std::copy_n(of_expert.data() + i * m.num_outputs, m.num_outputs,
                    outputs.data() + pairs[i] * m.num_outputs);
    }
    return added_up(m, used, outputs, extras.added_to);
  }

  void expect_as_separately(const mixture& m, const std::vector<float>& x, const how& extras = {}) {
    ASSERT_TRUE(same_bits(separately(m, x, extras), run_mixture(m, x, extras)))
        << device::traits_of(m.gate[0].type)->name << ", " << x.size() / m.num_cols << " rows, "
        << m.routing.num_used << " of " << m.routing.num_experts << " experts";
  }

 private:
  static std::vector<float> per_expert(const mixture& m, const float* values) {
    return {values, values + m.routing.num_experts};
  }
  static std::vector<float> spread(const std::vector<float>& x, std::size_t num_rows, std::size_t stride) {
    std::vector<float> out(num_rows * stride, guard);
    const std::size_t width = x.size() / num_rows;
    for (std::size_t r = 0; r < num_rows; ++r) std::copy_n(x.data() + r * width, width, &out[r * stride]);
    return out;
  }
  static std::vector<float> gathered(const std::vector<float>& all, std::size_t num_rows, std::size_t width) {
    std::vector<float> out;
    const std::size_t stride = all.size() / num_rows;
    for (std::size_t r = 0; r < num_rows; ++r) {
      out.insert(out.end(), &all[r * stride], &all[r * stride] + width);
      for (std::size_t i = width; i < stride; ++i) EXPECT_EQ(all[r * stride + i], guard);
    }
    return out;
  }

  /// Outputs of expert `e` for the rows `x`. No more than 64 at a time: fast mode would compute more of them
  /// in another way.
  std::vector<float> outputs_of(const mixture& m, std::size_t e, const std::vector<float>& x) {
    const auto gate = pack(m.gate[e]), up = pack(m.up[e]), down = pack(m.down[e]);
    std::vector<float> out;
    const std::size_t size = std::size_t{64} * m.num_cols;
    for (std::size_t at = 0; at < x.size(); at += size) {
      const auto first = x.begin() + static_cast<std::ptrdiff_t>(at);
      const auto last = first + static_cast<std::ptrdiff_t>(std::min(size, x.size() - at));
      const auto some = product(*down, gated(m, *gate, *up, {first, last}));
      out.insert(out.end(), some.begin(), some.end());
    }
    return out;
  }

  std::vector<float> gated(const mixture& m, const device::matrix& gate, const device::matrix& up,
                           const std::vector<float>& x) {
    const auto num_rows = static_cast<std::uint32_t>(x.size() / m.num_cols);
    const std::size_t num_values = std::size_t{num_rows} * m.inner;
    float* const products = upload(std::vector<float>(2 * num_values, guard));
    float* const out = upload(std::vector<float>(num_values, guard));
    const float* const there = upload(x);
    run([&](device::ops& ops) {
      ops.gated_matmul({there,
                        m.num_cols,
                        num_rows,
                        m.num_cols,
                        {},
                        m.two_planes,
                        &gate,
                        &up,
                        products,
                        out,
                        m.inner,
                        device::activation::silu});
    });
    return download(out, num_values);
  }

  static std::vector<float> added_up(const mixture& m, const std::vector<device::used_expert>& used,
                                     const std::vector<float>& outputs, const std::vector<float>& added_to) {
    const std::size_t num_used = m.routing.num_used;
    std::vector<float> out(used.size() / num_used * m.num_outputs);
    for (std::size_t at = 0; at < out.size(); ++at) {
      const std::size_t row = at / m.num_outputs, n = at % m.num_outputs;
      for (std::size_t i = row * num_used; i < (row + 1) * num_used; ++i) {
        const float weighed = (m.weigh_inputs ? 1.0F : used[i].weight) * outputs[i * m.num_outputs + n];
        out[at] = i == row * num_used ? weighed : out[at] + weighed;
      }
      if (!added_to.empty()) out[at] = added_to[at] + out[at];
    }
    return out;
  }
};

} // namespace paceline::gpu
