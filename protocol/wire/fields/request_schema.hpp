#pragma once

#include "protocol/wire/fields/field_spec.hpp"
#include "protocol/wire/json_writer.hpp"

namespace paceline::wire {

/// Writes the JSON Schema (2020-12) of a request of this kind, from the field table. It refers to
/// "#/components/schemas/token_id". Rules between fields and the model's limits are not part of it.
void write_request_schema(json_writer& out, request_kinds kind);

/// Writes the schema of one token id.
void write_token_id_schema(json_writer& out);

} // namespace paceline::wire
