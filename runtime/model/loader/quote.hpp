#pragma once

#include <string>
#include <string_view>

namespace paceline::model {

/// `text` from a file in quotes for an error message: at most 64 bytes of it, with everything but printable
/// ASCII escaped.
std::string quote(std::string_view text);

} // namespace paceline::model
