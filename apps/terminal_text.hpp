#pragma once

#include <string>
#include <string_view>

namespace paceline::apps {

/// `text` as it may be shown on a terminal: U+FFFD in place of ill-formed bytes and of control characters
/// other than those of `kept`. Otherwise a model, or a daemon, could set the terminal's title, fill the
/// clipboard or hide lines.
std::string for_terminal(std::string_view text, std::string_view kept = "\n\t");

/// `for_terminal(text)` if standard output is a terminal; `text` itself for files and pipes.
std::string for_output(std::string_view text);

} // namespace paceline::apps
