#pragma once

#include "runtime/model/model_config.hpp"

namespace paceline {
class json_node;
}

namespace paceline::model {

class gguf_keys;
class gguf_metadata;

// Which layers of a model have a sliding window, in families in which other layers see all positions. With
// a period n, every n-th layer sees all positions. `keys` and `fields` keep the first error.

/// Reads the window, and the layers that have it: from a list of flags, or from a period.
void read_gguf_local_layers(gguf_keys& keys, const gguf_metadata& metadata, model_config& config);

/// Sets the layers that have the window from a period. The window itself is read elsewhere.
void read_hf_window_period(const json_node& fields, model_config& config);

} // namespace paceline::model
