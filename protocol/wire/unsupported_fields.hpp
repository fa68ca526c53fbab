#pragma once

#include "protocol/wire/fields/field_spec.hpp"

namespace paceline::wire {

class field_reader;

/// For the fields at the top level of a request of `kind`: refuses those that the table marks as refused, and
/// accepts those without effect. Exception: a field without effect that has `field_spec::is_told` is not
/// accepted, so that it is listed as ignored.
void refuse_unsupported(field_reader& reader, request_kinds kind);

} // namespace paceline::wire
