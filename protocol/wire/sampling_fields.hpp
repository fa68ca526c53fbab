#pragma once

#include "runtime/base/request.hpp"

#include <cstdint>
#include <optional>

namespace paceline::wire {

class field_reader;

/// Reads the sampling parameters: temperature, top_p, top_k, min_p, penalties, biases. A top_p of 0 is
/// allowed here; `resolve` handles it.
void read_sampling(field_reader& reader, sampling_params& out);
/// Reads `seed`. -1, which asks llama-server for a random seed, counts as absent. OpenAI's seeds are signed:
/// another negative seed -s is read as 2^64 - s.
void read_seed(field_reader& reader, std::optional<std::uint64_t>& out);

} // namespace paceline::wire
