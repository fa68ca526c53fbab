#pragma once

#include "runtime/model/loader/tensor_role.hpp"

#include <boost/json/fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::model {

// Files of models that also read images or sound. Only their language model is loaded.

/// Tensors that are not loaded, because they are of vision or audio parts.
struct skipped_tensors {
  std::uint64_t num_tensors = 0;
  std::uint64_t num_bytes = 0;

  void add(std::uint64_t bytes) noexcept {
    ++num_tensors;
    num_bytes += bytes;
  }
};

/// "439 tensors (815.0 MiB) of vision and audio parts are not used"; empty if there are none.
std::string to_text(const skipped_tensors& skipped);

/// True for the name of a tensor of a vision or audio part: "vision_tower.x" and "model.visual.x", in GGUF
/// files "v.x", "a.x" and "mm.x".
bool is_beside_text(std::string_view name, tensor_naming naming) noexcept;

/// The name that a Hugging Face tensor of the language model has if that model is saved alone:
/// "model.layers.0.x" for "language_model.model.layers.0.x", the published form of gemma3, and for
/// "model.language_model.layers.0.x", that of newer checkpoints. Other names are returned unchanged.
std::string name_alone(std::string_view name);

/// The inverse: `alone` in the form that `example`, a name of the same file, has.
std::string name_like(std::string_view alone, std::string_view example);

/// The language model's members of a config.json: those of "text_config", if that is an object, else all.
const boost::json::object& text_members(const boost::json::object& config) noexcept;

} // namespace paceline::model
