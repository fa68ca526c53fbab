#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/model/model_config.hpp"

#include <boost/json/object.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::model {

/// Reads hyper-parameters from a Hugging Face config.json, which errors call `file`. Absent values have the
/// default of the transformers class of that model type. Both spellings of rotary settings are read:
/// rope_theta with rope_scaling, and the newer rope_parameters. If the model also reads images or sound, only
/// its language model, in "text_config", is read. Model types outside `architecture`, and heads other than
/// the language model's, are refused with an error that names them. Quantisation is read elsewhere
/// (runtime/model/loader/weights/fp8_weights.hpp).
expected<model_config> read_hf_config(const boost::json::object& config, const std::string& file);

/// Default sizes in the transformers class of a model type. A "text_config" contains only the values that
/// differ from these defaults.
struct class_sizes {
  std::uint32_t vocab_size, context_length, hidden_size, num_layers, num_heads, ffn_size;
};

/// Defaults of a model's transformers class. The model's module for multi-token prediction (MTP) has these
/// values where the config states none.
struct mtp_class_defaults {
  class_sizes sizes;
  std::uint32_t num_kv_heads, head_dim;
  double rotated_share; ///< of each head's values
};

/// The defaults for a "model_type", which may also be the type of a model that wraps the language model.
/// nullopt: no MTP modules are known for this type.
std::optional<mtp_class_defaults> hf_mtp_defaults(std::string_view model_type);

/// The architecture of a "model_type"; nullopt: it is not supported.
std::optional<architecture> hf_architecture(std::string_view model_type) noexcept;

} // namespace paceline::model
