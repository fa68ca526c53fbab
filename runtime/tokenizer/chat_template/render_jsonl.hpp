#pragma once

#include "runtime/tokenizer/chat_template/chat_template.hpp"

#include <cstddef>
#include <iosfwd>

namespace paceline::tokenizer {

/// Renders the template `rendered` once for each line of `in`; the line is a JSON object with the template's
/// variables. Writes the rendered text to `out` as a JSON string on its own line. If a line fails, {"error":
/// {"code": ..., "message": ...}} is written instead, and the next lines are still rendered. Empty lines are
/// skipped.
/// Returns the number of lines that failed; a program should exit with an error unless this is 0.
std::size_t render_jsonl(std::istream& in, std::ostream& out, const chat_template& rendered,
                         const render_limits& limits = {});

} // namespace paceline::tokenizer
