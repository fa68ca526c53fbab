#pragma once

#include "runtime/tokenizer/chat_template/chat_template.hpp"

#include <cstddef>
#include <iosfwd>

namespace paceline::tokenizer {

/// Renders line by line: one JSON object of template variables a line in, the rendered text as one JSON
/// string a line out. A line that fails gives {"error": {"code": ..., "message": ...}} in its place, and the
/// rest goes on; empty lines are passed over. Returns how many lines failed: a program should exit non-zero
/// unless none did.
std::size_t render_jsonl(std::istream& in, std::ostream& out, const chat_template& rendered,
                         const render_limits& limits = {});

} // namespace paceline::tokenizer
