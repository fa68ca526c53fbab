#pragma once

#include "runtime/model/loader/weights/mtp_names.hpp"
#include "runtime/model/loader/weights/tensor_role.hpp"

#include <boost/json/fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::model {

// Files of models that also read images or sound. Only their language model is loaded.

/// Counts tensors that are not loaded because they belong to other parts (`is_beside_text`).
struct skipped_tensors {
  std::uint64_t num_tensors = 0;
  std::uint64_t num_bytes = 0;
  std::uint64_t num_mtp_tensors = 0; ///< those of `num_tensors` in a module for multi-token prediction

  void add(std::string_view name, std::uint64_t bytes) noexcept {
    ++num_tensors;
    num_bytes += bytes;
    if (name.starts_with(mtp_prefix)) ++num_mtp_tensors;
  }
};

/// "439 tensors (815.0 MiB) of vision and audio parts are not used"; empty if there are none. Says the same
/// of modules for multi-token prediction.
std::string to_text(const skipped_tensors& skipped);

/// True for the name of a tensor of a vision or audio part: "vision_tower.x" and "model.visual.x", in GGUF
/// files "v.x", "a.x" and "mm.x". In GGUF files it is also true for "mtp.x", the name that Ollama's converter
/// gives to tensors of a module for multi-token prediction: drafters read such modules from GGUF files only
/// if they have llama.cpp's names.
bool is_beside_text(std::string_view name, tensor_naming naming) noexcept;

/// The name that a Hugging Face tensor of the language model has if that model is saved alone:
/// "model.layers.0.x" for "language_model.model.layers.0.x", the published form of gemma3, and for
/// "model.language_model.layers.0.x", the form of newer checkpoints. A tensor of a module for multi-token
/// prediction, in any of these places, gets the name "mtp.x". Other names are returned unchanged.
std::string name_alone(std::string_view name);

/// The inverse: `alone` in the form that `example`, a name of the same file, has.
std::string name_like(std::string_view alone, std::string_view example);

/// The language model's members of a config.json: those of "text_config", if that is an object, else all.
const boost::json::object& text_members(const boost::json::object& config) noexcept;

} // namespace paceline::model
