#pragma once

#include "runtime/model/loader/hugging_face/hf_config.hpp"
#include "runtime/model/loader/hugging_face/json_text.hpp"

#include <string>
#include <string_view>

namespace paceline::test {

/// The config in the text of a config.json.
inline expected<model::model_config> read_hf(std::string_view text) {
  const auto object = model::parse_json_object(text, "config.json");
  if (!object) return object.error();
  return model::read_hf_config(*object, "config.json");
}

/// Why a config was refused.
inline std::string refusal_of(const expected<model::model_config>& config) {
  return config ? "was accepted" : config.error().message();
}

} // namespace paceline::test
