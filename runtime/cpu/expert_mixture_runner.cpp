#include "runtime/cpu/expert_mixture_runner.hpp"

#include "runtime/cpu/thread_team.hpp"

#include <array>
#include <utility>

namespace paceline::cpu {
namespace {

/// Calls fn(row) for all rows, on the whole team if there are many values.
template <class Fn>
void for_each_row(thread_team& team, std::uint32_t num_rows, std::size_t values_per_row, const Fn& fn) {
  if (num_rows > 1 && num_rows * values_per_row >= values_worth_sharing)
    team.parallel_for(num_rows, [&](std::uint32_t r, std::uint32_t) { fn(r); });
  else
    for (std::uint32_t r = 0; r < num_rows; ++r) fn(r);
}

} // namespace

void expert_mixture_runner::run(const device::expert_mixture_args& args) {
  if (args.num_rows == 0) return;
  device::check_mixture(args);
  places at;
  at.inner = args.gate->at(0).num_rows();
  at.num_outputs = args.down->at(0).num_rows();
  const std::size_t num_positions = std::size_t{args.num_rows} * args.routing.num_used;
  at.logits = args.workspace;
  at.products = at.logits + std::size_t{args.num_rows} * args.routing.num_experts;
  at.outputs = at.products + num_positions * 2 * at.inner;
  at.inputs = at.outputs + num_positions * at.num_outputs;
  route_rows(args, at);
  sort_by_expert(args);
  if (args.weigh_inputs) weigh_inputs(args, at);
  multiply_up(args, at);
  multiply_down(args, at);
  add_up(args, at);
}

void expert_mixture_runner::route_rows(const device::expert_mixture_args& args, const places& at) {
  const device::expert_routing& by = args.routing;
  const std::array logits{
      device::matmul_output{args.router, at.logits, by.num_experts, args.router_bias, false}};
  matmul_.run({args.x, args.x_stride, args.num_rows, args.num_cols, false, logits});
  used_.resize(std::size_t{args.num_rows} * by.num_used);
  constexpr std::size_t values_per_expert = 16; // an exponential and the selection cost about as much
  for_each_row(team_, args.num_rows, values_per_expert * by.num_experts, [&](std::uint32_t r) {
    device::route(by, {at.logits + std::size_t{r} * by.num_experts, by.num_experts},
                  std::span(used_).subspan(std::size_t{r} * by.num_used, by.num_used));
  });
}

/// A counting sort. The positions of an expert are those of its rows, in ascending order.
void expert_mixture_runner::sort_by_expert(const device::expert_mixture_args& args) {
  const std::uint32_t num_used = args.routing.num_used;
  counts_.assign(args.routing.num_experts, 0);
  for (const device::used_expert& used : used_) ++counts_[static_cast<std::size_t>(used.index)];
  groups_.clear();
  std::uint32_t next = 0;
  for (std::uint32_t e = 0; e < counts_.size(); ++e) {
    const std::uint32_t count = counts_[e];
    if (count != 0) groups_.push_back({e, next, next + count});
    counts_[e] = next; // from here on, the next free position of the expert
    next += count;
  }
  position_of_.resize(used_.size());
  row_at_.resize(used_.size());
  weight_at_.resize(used_.size());
  for (std::uint32_t i = 0; i < used_.size(); ++i) {
    const std::uint32_t position = counts_[static_cast<std::size_t>(used_[i].index)]++;
    position_of_[i] = position;
    row_at_[position] = i / num_used;
    weight_at_[position] = used_[i].weight;
  }
}

void expert_mixture_runner::weigh_inputs(const device::expert_mixture_args& args, const places& at) {
  for_each_row(team_, static_cast<std::uint32_t>(row_at_.size()), args.num_cols, [&](std::uint32_t p) {
    const float* const x = args.x + row_at_[p] * args.x_stride;
    float* const to = at.inputs + std::size_t{p} * args.num_cols;
    for (std::uint32_t i = 0; i < args.num_cols; ++i) to[i] = x[i] * weight_at_[p];
  });
}

/// Computes gate and up of every position, and then the activation, which overwrites the gate.
void expert_mixture_runner::multiply_up(const device::expert_mixture_args& args, const places& at) {
  const std::size_t stride = 2 * std::size_t{at.inner};
  products_of_groups_.clear();
  for (const group& g : groups_)
    for (const auto& [set, to] : {std::pair{args.gate, at.products}, {args.up, at.products + at.inner}})
      products_of_groups_.push_back({&set->at(g.expert), to, stride, nullptr, false});
  const std::span outputs(products_of_groups_);
  const auto num_positions = static_cast<std::uint32_t>(row_at_.size());
  if (args.num_rows == 1 && !args.weigh_inputs) {
    // All experts multiply the same row, which is quantised once.
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].y += i / 2 * stride;
    matmul_.run({args.x, args.x_stride, 1, args.num_cols, args.two_planes, outputs});
  } else {
    segments_.clear();
    for (std::size_t g = 0; g < groups_.size(); ++g)
      segments_.push_back({groups_[g].begin, groups_[g].end, outputs.subspan(2 * g, 2)});
    segmented_matmul all{args.x, args.x_stride, args.num_cols, args.two_planes, row_at_, segments_};
    if (args.weigh_inputs) {
      all.x = at.inputs;
      all.x_stride = args.num_cols;
      all.rows = {};
    }
    matmul_.run(all);
  }
  rows_.glu(
      {at.products, at.products + at.inner, stride, at.products, stride, num_positions, at.inner, args.act});
}

void expert_mixture_runner::multiply_down(const device::expert_mixture_args& args, const places& at) {
  products_of_groups_.clear();
  for (const group& g : groups_)
    products_of_groups_.push_back({&args.down->at(g.expert), at.outputs, at.num_outputs, nullptr, false});
  segments_.clear();
  for (std::size_t g = 0; g < groups_.size(); ++g)
    segments_.push_back({groups_[g].begin, groups_[g].end, std::span(products_of_groups_).subspan(g, 1)});
  matmul_.run(segmented_matmul{at.products, 2 * std::size_t{at.inner}, at.inner, false, {}, segments_});
}

/// Adds the weighted outputs of each row's experts, in the order of slots.
void expert_mixture_runner::add_up(const device::expert_mixture_args& args, const places& at) {
  const std::uint32_t num_used = args.routing.num_used, width = at.num_outputs;
  for_each_row(team_, args.num_rows, std::size_t{num_used} * width, [&](std::uint32_t r) {
    float* sum = nullptr;
    for (std::uint32_t s = 0; s < num_used; ++s) {
      const std::uint32_t position = position_of_[std::size_t{r} * num_used + s];
      float* const y = at.outputs + std::size_t{position} * width;
      const float weight = args.weigh_inputs ? 1.0F : weight_at_[position];
      if (s == 0) {
        for (std::uint32_t i = 0; i < width; ++i) y[i] = weight * y[i];
        sum = y;
      } else {
        for (std::uint32_t i = 0; i < width; ++i) sum[i] = sum[i] + weight * y[i];
      }
    }
    float* const out = args.out + r * args.out_stride;
    for (std::uint32_t i = 0; i < width; ++i) out[i] = args.add ? out[i] + sum[i] : sum[i];
  });
}

} // namespace paceline::cpu
