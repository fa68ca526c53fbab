#pragma once

#include <string>
#include <string_view>

namespace paceline {

/// `text` from a file for an error message: at most 64 bytes of it, with everything but printable ASCII
/// escaped. So a file cannot send commands to a terminal, begin a line of a log or flood either.
std::string escaped(std::string_view text);

/// The same in quotes.
std::string quote(std::string_view text);

} // namespace paceline
