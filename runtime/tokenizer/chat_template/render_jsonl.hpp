#pragma once

#include "runtime/tokenizer/chat_template/chat_template.hpp"

#include <cstddef>
#include <iosfwd>

namespace paceline::tokenizer {

/// Renders line by line: each input line is a JSON object of template variables, each output line the
/// rendered text as a JSON string. A line that fails gives {"error": {"code": ..., "message": ...}} instead,
/// and the next lines are still rendered; empty lines are skipped. Returns the number of failed lines; a
/// program should exit with an error unless it is 0.
std::size_t render_jsonl(std::istream& in, std::ostream& out, const chat_template& rendered,
                         const render_limits& limits = {});

} // namespace paceline::tokenizer
