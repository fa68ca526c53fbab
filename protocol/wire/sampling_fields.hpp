#pragma once

#include "runtime/base/request.hpp"

namespace paceline::wire {

class field_reader;

/// Reads how logits become a token: temperature, truncations, penalties, biases.
void read_sampling(field_reader& reader, sampling_params& out);

} // namespace paceline::wire
