#pragma once

#include <string>

namespace paceline::wire {

/// The tables of fields in docs/protocol.md: the text between its two comments about them. A test compares
/// the tables with the file.
std::string field_reference();

} // namespace paceline::wire
