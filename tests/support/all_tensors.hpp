#pragma once

#include "runtime/model/loader/weights/weights_source.hpp"

#include <string>
#include <utility>
#include <vector>

namespace paceline::test {

/// All tensors of a model with their roles, layer by layer and expert by expert. Roles that the config
/// excludes have empty views.
inline std::vector<std::pair<std::string, model::weight_view>>
all_tensors(const model::weights_source& weights) {
  std::vector<std::pair<std::string, model::weight_view>> all;
  for (std::size_t i = 0; i < model::num_tensor_roles; ++i) {
    const auto role = static_cast<model::tensor_role>(i);
    const std::string name(to_string(role));
    if (!is_layer_role(role)) {
      all.emplace_back(name, weights.at(role));
      continue;
    }
    for (std::uint32_t layer = 0; layer < weights.num_layers(); ++layer)
      if (!is_expert_role(role))
        all.emplace_back(name, weights.at(role, layer));
      else
        for (std::uint32_t e = 0; e < weights.experts(role, layer).size(); ++e)
          all.emplace_back(name, weights.experts(role, layer)[e]);
  }
  return all;
}

} // namespace paceline::test
