#include "runtime/model/loader/families/longrope.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/base/quote.hpp"
#include "runtime/model/loader/families/family_traits.hpp"
#include "runtime/model/loader/gguf/gguf_keys.hpp"
#include "runtime/model/loader/hugging_face/hf_rope.hpp"

#include <cmath>
#include <string>

namespace paceline::model {
namespace {

constexpr std::string_view long_name = "rope_factors_long.weight";
constexpr std::string_view short_name = "rope_factors_short.weight";

/// The paper's magnitude for a context that is `factor` times the original one.
double usual_magnitude(double factor, std::uint32_t original) {
  return factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
}

std::vector<float> read_divisors(const json_node& list, const model_config& config) {
  list.require_array();
  const std::uint32_t num_pairs = config.num_rotated() / 2;
  if (list.size() != num_pairs) {
    list.refuse("must have one element for each of the " + std::to_string(num_pairs) + " rotated pairs");
    return {};
  }
  std::vector<float> divisors;
  for (std::size_t i = 0; i < num_pairs; ++i) divisors.push_back(static_cast<float>(list[i].setting()));
  return divisors;
}

} // namespace

bool is_longrope(const json_node& settings, architecture arch) {
  if (!settings.is_object()) return false;
  const auto kind = settings["rope_type"].string_or(settings["type"].string_or("default"));
  // Phi-3's first checkpoints have one of the others.
  return kind == "longrope" || (arch == architecture::phi3 && (kind == "su" || kind == "yarn"));
}

void read_hf_longrope(const json_node& fields, model_config& config) {
  const json_node settings = find_hf_rope_settings(fields);
  if (!is_longrope(settings, config.arch)) return;
  // Phi-3's class has a default of its own.
  const std::uint32_t usual = config.arch == architecture::phi3 ? 4096 : config.context_length;
  const std::uint32_t original = find_hf_contexts(fields, settings, usual).original;
  if (original < 2) return settings["original_max_position_embeddings"].refuse("must be at least 2");
  const bool is_long = config.context_length > original;
  config.rope.frequency_divisors = read_divisors(settings[is_long ? "long_factor" : "short_factor"], config);
  const double factor = settings["factor"].setting_or(static_cast<double>(config.context_length) / original);
  config.rope.scaling.magnitude = settings["attention_factor"].setting_or(usual_magnitude(factor, original));
  if (!traits_of(config.arch).scales_global_rope) config.local_rope = config.rope;
}

std::string_view read_gguf_divisors_name(const gguf_file& file, gguf_keys& keys, model_config& config) {
  const bool has_long = file.find_tensor(long_name) != nullptr;
  const bool has_short = file.find_tensor(short_name) != nullptr;
  const bool is_stated = keys.string_or("rope.scaling.type", "none") == "longrope";
  if (!has_long && !has_short && !is_stated) return "rope_freqs.weight";
  if (!has_long || !has_short) {
    keys.refuse("rope.scaling.type", "is 'longrope' or the file has a tensor for it, but tensor " +
                                         quote(has_long ? short_name : long_name) + " is missing");
    return {};
  }
  config.rope.scaling.magnitude = keys.number_or("rope.scaling.attn_factor", 1);
  const std::uint32_t original = keys.uint_or("rope.scaling.original_context_length", config.context_length);
  return config.context_length > original ? long_name : short_name;
}

} // namespace paceline::model
