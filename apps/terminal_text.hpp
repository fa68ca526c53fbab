#pragma once

#include <string>
#include <string_view>

namespace paceline::apps {

/// `text` made safe for a terminal: U+FFFD replaces ill-formed bytes and control characters other than those
/// of `kept`. With unchanged text, a model or a daemon could set the terminal's title, fill the clipboard or
/// hide lines.
std::string for_terminal(std::string_view text, std::string_view kept = "\n\t");

/// `for_terminal(text)` if standard output is a terminal; `text` itself for files and pipes.
std::string for_output(std::string_view text);

} // namespace paceline::apps
