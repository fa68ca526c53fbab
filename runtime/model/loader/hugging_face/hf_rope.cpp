#include "runtime/model/loader/hugging_face/hf_rope.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/base/quote.hpp"
#include "runtime/model/loader/families/family_traits.hpp"
#include "runtime/model/loader/families/longrope.hpp"
#include "runtime/model/rope_frequencies.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace paceline::model {
namespace {

void read_yarn(const json_node& settings, rope_scaling& scaling, const hf_contexts& contexts) {
  scaling.kind = rope_scaling_kind::yarn;
  scaling.original_context_length = contexts.original;
  scaling.factor =
      settings["factor"].setting_or(static_cast<double>(contexts.stated) / std::max(contexts.original, 1U));
  scaling.beta_fast = settings["beta_fast"].setting_or(scaling.beta_fast);
  scaling.beta_slow = settings["beta_slow"].setting_or(scaling.beta_slow);
  scaling.truncate = settings["truncate"].flag_or(true);
  scaling.magnitude = yarn_magnitude(scaling.factor);
  const double weight = settings["mscale"].setting_or(0);
  const double all_dims_weight = settings["mscale_all_dim"].setting_or(0);
  if (weight != 0 && all_dims_weight != 0)
    scaling.magnitude =
        yarn_magnitude(scaling.factor, weight) / yarn_magnitude(scaling.factor, all_dims_weight);
  scaling.magnitude = settings["attention_factor"].setting_or(scaling.magnitude);
}

rope_config rope_or_default(const json_node& settings, double theta, const hf_contexts& contexts) {
  if (settings) return parse_hf_rope(settings, theta, contexts);
  rope_config rope;
  rope.theta = theta;
  return rope;
}

/// The rotary settings of a config whose layers all have the same.
rope_config rope_of_all_layers(const json_node& fields, double default_theta, const model_config& config) {
  const json_node settings = find_hf_rope_settings(fields);
  const double theta = find_hf_rope_theta(fields, default_theta);
  if (!is_longrope(settings, config.arch))
    return rope_or_default(settings, theta, find_hf_contexts(fields, settings, config.context_length));
  rope_config rope; // read_hf_longrope reads the rest
  rope.theta = settings["rope_theta"].setting_or(theta);
  return rope;
}

/// The settings of one kind of layers, beside which the config's own original context does not count.
rope_config rope_of_kind(const json_node& settings, double theta, std::uint32_t context_length) {
  const json_node original = settings["original_max_position_embeddings"];
  return rope_or_default(settings, theta, {context_length, original.uint_or(context_length)});
}

} // namespace

hf_contexts find_hf_contexts(const json_node& fields, const json_node& settings,
                             std::uint32_t context_length) {
  constexpr std::string_view key = "original_max_position_embeddings";
  return {context_length, fields[key].uint_or(settings[key].uint_or(context_length))};
}

json_node find_hf_rope_settings(const json_node& fields) {
  const json_node scaling = fields["rope_scaling"];
  if (scaling.is_object() ? scaling.has_members() : static_cast<bool>(scaling)) return scaling;
  return fields["rope_parameters"];
}

double find_hf_rope_theta(const json_node& fields, double usual) {
  return fields["rope_theta"].setting_or(fields["rope_parameters"]["rope_theta"].setting_or(usual));
}

json_node find_hf_rotated_share(const json_node& fields, const json_node& settings) {
  const json_node own = settings["partial_rotary_factor"];
  return own ? own : fields["partial_rotary_factor"];
}

rope_config parse_hf_rope(const json_node& settings, double default_theta, const hf_contexts& contexts) {
  settings.require_object();
  rope_config rope;
  rope.theta = settings["rope_theta"].setting_or(default_theta);
  auto& scaling = rope.scaling;
  const auto kind = settings["rope_type"].string_or(settings["type"].string_or("default"));
  if (kind == "default") return rope;
  if (kind == "linear") {
    scaling.kind = rope_scaling_kind::linear;
    scaling.factor = settings["factor"].setting();
  } else if (kind == "llama3") {
    scaling.kind = rope_scaling_kind::llama3;
    scaling.factor = settings["factor"].setting();
    scaling.original_context_length = contexts.original;
    scaling.low_freq_factor = settings["low_freq_factor"].setting();
    scaling.high_freq_factor = settings["high_freq_factor"].setting();
  } else if (kind == "yarn") {
    read_yarn(settings, scaling, contexts);
  } else {
    settings["rope_type"].refuse(
        "is " + quote(kind) +
            "; supported are default, linear, llama3, yarn and, with one rotation for all layers, longrope",
        errc::unsupported);
  }
  return rope;
}

void read_hf_rotation(const json_node& fields, double default_theta, model_config& config) {
  const double theta = fields["rope_theta"].setting_or(default_theta);
  const double usual_local = traits_of(config.arch).local_theta;
  const double local_theta =
      usual_local != 0 ? fields["rope_local_base_freq"].setting_or(usual_local) : theta;
  const json_node parameters = fields["rope_parameters"];
  if (parameters) parameters.require_object();
  const json_node full = parameters["full_attention"], local = parameters["sliding_attention"];
  if (full || full.is_null() || local || local.is_null()) {
    const json_node added = fields["rope_scaling"];
    const double full_theta = full["rope_theta"].setting_or(theta);
    config.rope = rope_of_kind(added.has_members() ? added : full, full_theta, config.context_length);
    config.local_rope = rope_of_kind(local, local_theta, config.context_length);
  } else {
    config.rope = rope_of_all_layers(fields, default_theta, config);
    config.local_rope = config.rope;
    if (traits_of(config.arch).scales_global_rope) {
      config.local_rope = {};
      config.local_rope.theta = usual_local != 0 ? local_theta : config.rope.theta;
    }
  }
  config.context_length = hf_extended_context(config.rope.scaling, config.context_length);
}

void read_hf_rotary_dim(const json_node& fields, std::optional<double> usual_share, model_config& config) {
  const json_node settings = find_hf_rope_settings(fields);
  const json_node stated = find_hf_rotated_share(fields, settings);
  if (!usual_share) {
    if (stated.setting_or(1) != 1 &&
        (config.rope.scaling.kind != rope_scaling_kind::none || is_longrope(settings, config.arch)))
      stated.refuse("must be 1: heads of this architecture are rotated as a whole", errc::unsupported);
    return;
  }
  const double share = stated.setting_or(*usual_share);
  const double rotated = std::floor(share * config.head_dim);
  if (!(share > 0 && share <= 1) || rotated < 2 || static_cast<std::uint32_t>(rotated) % 2 != 0)
    return stated.refuse("must be above 0 and at most 1, and leave an even number of a head's " +
                         std::to_string(config.head_dim) + " values to rotate");
  if (share != 1) config.rotary_dim = static_cast<std::uint32_t>(rotated);
}

std::uint32_t hf_extended_context(const rope_scaling& scaling, std::uint32_t context_length) noexcept {
  if (scaling.kind != rope_scaling_kind::yarn || !(scaling.factor >= 1 && scaling.factor <= 1e6))
    return context_length;
  return static_cast<std::uint32_t>(
      std::clamp<double>(scaling.factor * scaling.original_context_length, context_length, 4294967295.0));
}

} // namespace paceline::model
