#pragma once

#include <string>
#include <string_view>

namespace paceline {

/// `text` from a file, made safe for an error message: its first 64 bytes, in which everything but printable
/// ASCII is escaped as "\xHH", and "..." if it is longer. So a file cannot send commands to a terminal, start
/// new lines in a log, or flood a terminal or log.
std::string escaped(std::string_view text);

/// `escaped(text)` in single quotes.
std::string quote(std::string_view text);

} // namespace paceline
