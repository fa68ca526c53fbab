#include "runtime/device/op_expert_mixture.hpp"

#include "runtime/base/check.hpp"

#include <string>

namespace paceline::device {
namespace {

std::string shape_of(const matrix& m) {
  return std::to_string(m.num_rows()) + " x " + std::to_string(m.num_cols());
}

} // namespace

void check_mixture(const expert_mixture_args& args) {
  const expert_routing& by = args.routing;
  PACELINE_CHECK(by.num_experts > 0 && by.num_experts <= max_experts && by.num_used > 0 &&
                     by.num_used <= max_used_experts && by.num_groups > 0 &&
                     by.num_experts % by.num_groups == 0 && by.num_used_groups > 0 &&
                     by.num_used_groups <= by.num_groups &&
                     by.num_used <= by.num_experts / by.num_groups * by.num_used_groups,
                 "expert_mixture: " + std::to_string(by.num_used) + " of " + std::to_string(by.num_experts) +
                     " experts");
  PACELINE_CHECK(args.router->num_rows() == by.num_experts && args.gate->size() == by.num_experts &&
                     args.up->size() == by.num_experts && args.down->size() == by.num_experts,
                 "expert_mixture: the weights are not those of " + std::to_string(by.num_experts) +
                     " experts");
  const matrix &gate = args.gate->at(0), &up = args.up->at(0), &down = args.down->at(0);
  PACELINE_CHECK(up.num_rows() == gate.num_rows() && up.num_cols() == gate.num_cols(),
                 "expert_mixture: gate and up have different shapes");
  PACELINE_CHECK(args.router->num_cols() == args.num_cols && gate.num_cols() == args.num_cols &&
                     down.num_cols() == gate.num_rows(),
                 "expert_mixture: rows of " + std::to_string(args.num_cols) + " values with gates of " +
                     shape_of(gate) + " and outputs of " + shape_of(down));
}

} // namespace paceline::device
