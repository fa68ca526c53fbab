#pragma once

#include "runtime/model/model_config.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace paceline {
class json_node;
}

namespace paceline::model {

/// Reads "layer_types" of a config.json: for each of `num_layers` layers true if it is called `name`, false
/// if it is called "full_attention". Other names and another length are refused; the flags then have no
/// meaning. `types` keeps the error.
std::vector<bool> layers_of_type(const json_node& types, std::uint32_t num_layers, std::string_view name);

/// Sets `config.layer_kinds` from "layer_types": layers called `name` get `kind`, the others attention.
void read_layer_kinds(const json_node& types, std::string_view name, layer_kind kind, model_config& config);

} // namespace paceline::model
