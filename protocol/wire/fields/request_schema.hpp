#pragma once

#include "protocol/wire/fields/field_spec.hpp"
#include "protocol/wire/json_writer.hpp"

namespace paceline::wire {

/// Writes the JSON Schema (2020-12) of a request from `field_groups` (field_table.hpp). `kind` is one bit of
/// `request_kinds`. The schema refers to "#/components/schemas/token_id", where the caller must put the
/// result of `write_token_id_schema`. It has no limits that depend on the model. Of the rules that relate
/// fields to each other it has only one: that one of two fields is required (`field_spec::unless`). Its
/// minLength and maxLength are the parser's limits, which count bytes of UTF-8, so a validator accepts more
/// text outside ASCII than the parser.
void write_request_schema(json_writer& out, request_kinds kind);

/// Writes the schema of one token id.
void write_token_id_schema(json_writer& out);

} // namespace paceline::wire
