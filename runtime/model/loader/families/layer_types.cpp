#include "runtime/model/loader/families/layer_types.hpp"

#include "runtime/base/json_node.hpp"

#include <string>

namespace paceline::model {

std::vector<bool> layers_of_type(const json_node& types, std::uint32_t num_layers, std::string_view name) {
  std::vector<bool> flags(num_layers);
  types.require_array();
  if (types.size() != num_layers)
    types.refuse("must have one element for each of the " + std::to_string(num_layers) + " layers, has " +
                 std::to_string(types.size()));
  for (std::uint32_t i = 0; i < num_layers && !types.failed(); ++i) {
    const std::string type = types[i].is_string() ? types[i].string() : "";
    if (type != name && type != "full_attention")
      types.refuse("must hold '" + std::string(name) + "' and 'full_attention' only", errc::unsupported);
    flags[i] = type == name;
  }
  return flags;
}

void read_layer_kinds(const json_node& types, std::string_view name, layer_kind kind, model_config& config) {
  for (const bool is_named : layers_of_type(types, config.num_layers, name))
    config.layer_kinds.push_back(is_named ? kind : layer_kind::attention);
}

} // namespace paceline::model
