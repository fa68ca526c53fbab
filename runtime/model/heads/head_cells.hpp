#pragma once

#include "runtime/model/kv_cells.hpp"
#include "runtime/model/model_config.hpp"

#include <array>
#include <cstdint>
#include <span>

namespace paceline::model {

/// Keys and values of a head whose layers are `layer.num_layers` decoder layers.
inline kv_shape shape_of(const model_config& layer, kv_type type) {
  return {layer.num_layers, layer.num_kv_heads, layer.head_dim, type};
}

/// The features that a head's rows store beside their cells: one vector of `num_values` values; 0: none.
inline feature_shape kept_vector(std::uint32_t num_values) {
  static constexpr std::array one{layer_index{0}};
  return {num_values != 0 ? std::span<const layer_index>(one) : std::span<const layer_index>(), num_values};
}

} // namespace paceline::model
