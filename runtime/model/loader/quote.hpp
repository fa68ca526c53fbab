#pragma once

#include <string>
#include <string_view>

namespace paceline::model {

/// `text` of a file between quotes, fit for an error message: at most 64 bytes of it, all but printable ASCII
/// escaped.
std::string quote(std::string_view text);

} // namespace paceline::model
