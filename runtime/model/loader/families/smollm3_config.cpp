#include "runtime/model/loader/families/smollm3_config.hpp"

#include "runtime/base/json_node.hpp"

namespace paceline::model {
namespace {

constexpr std::uint32_t usual_interval = 4;

void skip_every(std::uint32_t interval, model_config& config) {
  config.unrotated_layers.assign(config.num_layers, false);
  for (std::uint32_t l = 0; l < config.num_layers; ++l) config.unrotated_layers[l] = (l + 1) % interval == 0;
}

/// "no_rope_layers" has a 1 for each layer that rotates, contrary to its name.
void read_list(const json_node& rotated, model_config& config) {
  rotated.require_array();
  if (rotated.size() < config.num_layers) return rotated.refuse("must have one element for each layer");
  for (std::uint32_t l = 0; l < config.num_layers; ++l)
    config.unrotated_layers.push_back(rotated[l].uint_below(2) == 0);
}

/// Windows are an option of the class that no published checkpoint uses.
void refuse_windows(const json_node& fields) {
  if (fields["use_sliding_window"].flag_or(false))
    fields["use_sliding_window"].refuse("must be false: windows are not supported in this architecture",
                                        errc::unsupported);
  const json_node types = fields["layer_types"];
  if (!types) return;
  types.require_array();
  for (std::size_t l = 0; l < types.size(); ++l)
    if (!types[l].is_string() || types[l].string() != "full_attention")
      return types.refuse("must hold 'full_attention' only", errc::unsupported);
}

} // namespace

void read_gguf_smollm3(const gguf_file&, gguf_keys&, model_config& config) {
  skip_every(usual_interval, config);
}

void read_hf_smollm3(const json_node& fields, model_config& config) {
  refuse_windows(fields);
  if (const json_node rotated = fields["no_rope_layers"]) return read_list(rotated, config);
  const std::uint32_t interval = fields["no_rope_layer_interval"].uint_or(usual_interval);
  if (interval == 0) return fields["no_rope_layer_interval"].refuse("must be at least 1");
  skip_every(interval, config);
}

} // namespace paceline::model
