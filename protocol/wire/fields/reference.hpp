#pragma once

#include <string>

namespace paceline::wire {

/// The tables of fields in docs/protocol.md, between its marks. A test compares them with the file.
std::string field_reference();

} // namespace paceline::wire
