#pragma once

#include "protocol/wire/api_error.hpp"
#include "protocol/wire/generation_fields.hpp"

#include <optional>

namespace paceline::wire {

class field_reader;

/// Reads the fields of beam search: vLLM's `use_beam_search` and `length_penalty`, and Paceline's
/// `beam_width`. The best `n` of `beam_width` hypotheses are returned; without `beam_width` the width is `n`.
/// `n` must have been read before.
void read_beams(field_reader& reader, generation_fields& out);

/// The error for the first field that is incompatible with beam search; nullopt if there is no such field, or
/// if the request has no beam search. To be called once all fields are read.
std::optional<api_error> conflict_with_beams(const generation_fields& fields);

} // namespace paceline::wire
