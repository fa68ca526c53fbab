#pragma once

#include "protocol/wire/fields/field_spec.hpp"

namespace paceline::wire {

class field_reader;

/// Refuses the fields that the table marks as refused for this kind of request, and accepts those without
/// effect, except those that are told as ignored.
void refuse_unsupported(field_reader& reader, request_kinds kind);

} // namespace paceline::wire
