#include "runtime/model/loader/families/mistral3_config.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/model/loader/gguf/gguf_keys.hpp"
#include "runtime/model/loader/hugging_face/hf_rope.hpp"
#include "runtime/model/rope_frequencies.hpp"

namespace paceline::model {
namespace {

/// Sets the class's values for a config without rotary settings.
void set_usual_rotation(model_config& config) {
  rope_scaling& scaling = config.rope.scaling;
  scaling.kind = rope_scaling_kind::yarn;
  scaling.factor = 16;
  scaling.original_context_length = 16384;
  config.growth = {0.1, scaling.original_context_length};
}

/// llama.cpp's converter writes one weight of YaRN's magnitude; the other is 1 in all models. Ollama's writes
/// both as config.json has them, where they count together only.
void read_weights_of_magnitude(gguf_keys& keys, rope_scaling& scaling) {
  if (const double weight = keys.number_or("rope.scaling.yarn_log_multiplier", 0); weight != 0) {
    scaling.magnitude /= yarn_magnitude(scaling.factor, weight);
    return;
  }
  const double weight = keys.number_or("rope.scaling.mscale", 0);
  const double all_dims_weight = keys.number_or("rope.scaling.mscale_all_dim", 0);
  if (weight != 0 && all_dims_weight != 0)
    scaling.magnitude =
        yarn_magnitude(scaling.factor, weight) / yarn_magnitude(scaling.factor, all_dims_weight);
}

} // namespace

void read_gguf_mistral3(const gguf_file&, gguf_keys& keys, model_config& config) {
  if (config.rope.scaling.kind == rope_scaling_kind::yarn)
    read_weights_of_magnitude(keys, config.rope.scaling);
  const double beta =
      keys.number_or("attention.temperature_scale", keys.number_or("rope.scaling_beta", 0)); // Ollama's
  if (beta == 0) return;
  const std::uint32_t original = keys.uint_or("rope.scaling.original_context_length", config.context_length);
  config.growth = {beta, keys.uint_or("attention.temperature_length", original)};
  if (config.growth.period == 0) keys.refuse("attention.temperature_length", "must be at least 1");
}

void read_hf_ministral3(const json_node& fields, model_config& config) {
  config.norm_epsilon = static_cast<float>(fields["rms_norm_eps"].setting_or(1e-5));
  if (const json_node window = fields["sliding_window"])
    window.refuse("must be null: windows are not supported in this architecture", errc::unsupported);
  const json_node settings = find_hf_rope_settings(fields);
  if (!settings) {
    set_usual_rotation(config);
  } else if (const double beta = settings["llama_4_scaling_beta"].setting_or(0); beta != 0) {
    config.growth = {beta, config.rope.scaling.kind == rope_scaling_kind::yarn
                               ? config.rope.scaling.original_context_length
                               : settings["original_max_position_embeddings"].uint()};
    if (config.growth.period == 0) settings["original_max_position_embeddings"].refuse("must be at least 1");
  }
  config.local_rope = config.rope;
}

} // namespace paceline::model
