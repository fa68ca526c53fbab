#pragma once

#include <string>

namespace paceline::wire {

class field_reader;

/// How thoughts are returned.
struct reasoning_options {
  bool split = true; ///< apart from the answer; false: inside the text, with their markers
  bool shown = true; ///< false: thoughts that are told apart are dropped
};

/// Reads `reasoning_format` (llama-server: auto, deepseek, none), `separate_reasoning` (SGLang) and
/// `include_reasoning` (vLLM). Later ones of these have precedence.
void read_reasoning_options(field_reader& reader, reasoning_options& out);

} // namespace paceline::wire
