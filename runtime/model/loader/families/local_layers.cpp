#include "runtime/model/loader/families/local_layers.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/model/loader/families/family_traits.hpp"
#include "runtime/model/loader/gguf/gguf_keys.hpp"

#include <string_view>
#include <utility>

namespace paceline::model {
namespace {

/// The last layer of each period sees all positions.
void set_by_period(std::uint32_t period, model_config& config) {
  for (std::uint32_t i = 0; i < config.num_layers; ++i) config.local_layers[i] = (i + 1) % period != 0;
}

} // namespace

void read_gguf_local_layers(gguf_keys& keys, const gguf_metadata& metadata, model_config& config) {
  constexpr std::string_view pattern = "attention.sliding_window_pattern";
  config.sliding_window = keys.uint("attention.sliding_window");
  const auto* entry = metadata.find(keys.key(pattern));
  if (entry && entry->is_array) {
    if (auto flags = keys.layer_flags(pattern, config.num_layers); !flags.empty())
      config.local_layers = std::move(flags);
    return;
  }
  const auto period = keys.uint_or(pattern, traits_of(config.arch).window_period);
  if (period == 0) return keys.refuse(pattern, "must be at least 1");
  set_by_period(period, config);
}

void read_hf_window_period(const json_node& fields, model_config& config) {
  const auto period = fields["sliding_window_pattern"].uint_or(traits_of(config.arch).window_period);
  if (period == 0) return fields["sliding_window_pattern"].refuse("must be at least 1");
  set_by_period(period, config);
}

} // namespace paceline::model
