#include "runtime/cpu/gated_delta_runner.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/scalar_math.hpp"

#include <string>

namespace paceline::cpu {
namespace {

/// With fewer updated elements than this, the op runs on the calling thread alone: that is work of some
/// microseconds.
constexpr std::size_t elements_worth_sharing = 32768;

} // namespace

void gated_delta_runner::compute_factors(const device::gated_delta_args& args) {
  const std::uint32_t num_heads = args.heads.num_values;
  factors_.resize(args.rows.size() * num_heads);
  for (std::size_t r = 0; r < args.rows.size(); ++r)
    for (std::uint32_t h = 0; h < num_heads; ++h) {
      const std::size_t at = r * args.stride + h;
      const float step = device::softplus_reference(args.alpha[at] + args.dt_bias[h]);
      factors_[r * num_heads + h] = {device::exp_reference(args.decay[h] * step),
                                     1.0F / (1.0F + device::exp_reference(-args.beta[at]))};
    }
}

void gated_delta_runner::run(const device::gated_delta_args& args) {
  const device::delta_heads& heads = args.heads;
  PACELINE_CHECK(heads.key_dim % 4 == 0 && heads.key_dim <= device::max_delta_keys,
                 "gated_delta: keys of " + std::to_string(heads.key_dim) + " values");
  PACELINE_CHECK(args.states.slot_stride >= heads.state_values(),
                 "gated_delta: a slot does not hold the state of a layer");
  const device::state_plan plan = device::plan_states(args.rows);
  compute_factors(args);
  running_.resize(team_.size() * std::size_t{heads.key_dim});
  const std::uint32_t groups = heads.num_values * heads.num_groups();
  const auto part = [&](std::uint32_t p, std::uint32_t member) {
    const std::uint32_t text = p / groups, group = p % groups;
    const std::span steps =
        std::span(plan.steps).subspan(plan.first[text], plan.first[text + 1] - plan.first[text]);
    kernels_.gated_delta(args, {steps, group / heads.num_groups(), group % heads.num_groups(),
                                factors_.data(), running_[member * std::size_t{heads.key_dim}].columns});
  };
  const std::uint32_t num_parts = plan.num_texts() * groups;
  if (plan.steps.size() * heads.state_values() < elements_worth_sharing) {
    for (std::uint32_t p = 0; p < num_parts; ++p) part(p, 0);
    return;
  }
  team_.parallel_for(num_parts, part);
}

} // namespace paceline::cpu
