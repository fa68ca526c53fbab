#pragma once

#include "runtime/model/model_config.hpp"

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_keys;
class gguf_metadata;

// Which layers of a model have a window, where some have none. Errors are kept by the reader.

/// The window, and the layers by a list of flags or by the distance of those that see all positions.
void read_gguf_local_layers(gguf_keys& keys, const gguf_metadata& metadata, model_config& config);

/// The layers by the distance of those that see all positions.
void read_hf_window_period(const json_node& fields, model_config& config);

} // namespace paceline::model
