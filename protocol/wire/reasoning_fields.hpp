#pragma once

#include <string>

namespace paceline::wire {

class field_reader;
struct field_spec;

/// How thoughts are returned.
struct reasoning_options {
  bool split = true; ///< thoughts are returned apart from the answer; false: in the text, with their markers
  bool shown = true; ///< false: separated thoughts are dropped
};

/// Reads `reasoning_format` (llama-server: auto, deepseek, none), `separate_reasoning` (SGLang) and
/// `include_reasoning` (vLLM). If several are present, the later in this list has precedence.
void read_reasoning_options(field_reader& reader, reasoning_options& out);

/// How much the model is asked to reason. The effect depends on the model's chat template.
struct effort_wish {
  std::string field; ///< the request's field with the level; empty: none
  std::string level; ///< "none", "minimal", "low", "medium", "high", "xhigh" or "max"
};

/// Reads a level, if the field of `row` is present. It replaces a level that was read before.
void read_effort(field_reader& reader, const field_spec& row, effort_wish& out);

} // namespace paceline::wire
