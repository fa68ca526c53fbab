#pragma once

#include "protocol/wire/api_error.hpp"
#include "protocol/wire/generation_fields.hpp"

#include <optional>

namespace paceline::wire {

class field_reader;

/// Beam search as vLLM spells it: `use_beam_search`, `length_penalty`, and `n` as width; ours: `beam_width`,
/// of which the best `n` are returned. `n` has been read.
void read_beams(field_reader& reader, generation_fields& out);

/// The first field that a beam search could not act on, once all are read; none without beam search.
std::optional<api_error> conflict_with_beams(const generation_fields& fields);

} // namespace paceline::wire
