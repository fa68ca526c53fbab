#pragma once

#include "protocol/wire/fields/field_table.hpp"

#include <map>
#include <string>
#include <vector>

namespace paceline::wire {

/// The smallest request of each kind. The last one of repeated members counts, so a field is tested by adding
/// it.
extern const std::map<request_kinds, std::string> smallest_requests;

/// JSON values that the row allows in requests of this kind.
std::vector<std::string> good_values(const field_spec& row, request_kinds kind);
/// JSON values that the row does not allow.
std::vector<std::string> bad_values(const field_spec& row);

/// Where the field stands in a body: % is replaced by its member.
std::string place_of(const field_spec& row, request_kinds kind);
/// The smallest request of this kind with the field and what the field needs.
std::string body_with(const field_spec& row, request_kinds kind, const std::string& value);

} // namespace paceline::wire
