#include "runtime/model/loader/weights/mtp_names.hpp"

#include "runtime/model/loader/families/family_traits.hpp"
#include "runtime/model/loader/text_part.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace paceline::model {
namespace {

/// What is before `mtp_prefix` in models with other parts.
constexpr std::string_view places[] = {"model.", "language_model.", "model.language_model.",
                                       "language_model.model."};

/// The layer that the name of a tensor states: 24 for "blk.24.attn_q.weight".
std::optional<std::uint32_t> layer_of(std::string_view name, tensor_naming naming) {
  const auto prefix = layer_prefix(naming);
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  return take_number(name);
}

} // namespace

std::string_view mtp_name_alone(std::string_view name) noexcept {
  if (name.starts_with(mtp_prefix)) return name;
  for (const std::string_view place : places)
    if (name.starts_with(place) && name.substr(place.size()).starts_with(mtp_prefix))
      return name.substr(place.size());
  return {};
}

bool is_mtp_tensor(std::string_view name, tensor_naming naming, const model_config& config) {
  // A config that another program has written may lack the number of modules.
  if (naming == tensor_naming::hugging_face)
    return traits_of(config.arch).has_mtp_module && name.starts_with(mtp_prefix);
  if (config.num_mtp_modules == 0) return false;
  const auto layer = layer_of(name, naming);
  return layer && *layer >= config.num_layers && *layer - config.num_layers < config.num_mtp_modules;
}

bool is_mtp_expert_tensor(std::string_view name_in_file) {
  const std::string name = name_alone(name_in_file);
  const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
  if (!begins(mtp_prefix) && !begins("mtp_layers.") && !begins("model.mtp_layers.")) return false;
  return name.ends_with(".mlp.gate.weight") || name.find(".mlp.experts.") != std::string::npos;
}

} // namespace paceline::model
