#pragma once

#include "protocol/wire/api_error.hpp"
#include "protocol/wire/generation_fields.hpp"

#include <optional>

namespace paceline::wire {

class field_reader;

/// Reads the fields of beam search. vLLM's: `use_beam_search`, `length_penalty`, and `n` as the width. Ours:
/// `beam_width`, of whose hypotheses the best `n` are returned. `n` must have been read before.
void read_beams(field_reader& reader, generation_fields& out);

/// The first field that is incompatible with beam search, to be called once all fields are read; nullopt
/// without beam search.
std::optional<api_error> conflict_with_beams(const generation_fields& fields);

} // namespace paceline::wire
