#pragma once

#include <string>

namespace paceline::wire {

class field_reader;
struct field_spec;

/// How thoughts are returned.
struct reasoning_options {
  bool split = true; ///< apart from the answer; false: inside the text, with their markers
  bool shown = true; ///< false: thoughts that are told apart are dropped
};

/// Reads `reasoning_format` (llama-server: auto, deepseek, none), `separate_reasoning` (SGLang) and
/// `include_reasoning` (vLLM). Later ones of these have precedence.
void read_reasoning_options(field_reader& reader, reasoning_options& out);

/// How much a request wants the model to reason. What comes of it is up to the model's template.
struct effort_wish {
  std::string field; ///< that says it; empty: none does
  std::string level; ///< "none", "minimal", "low", "medium", "high", "xhigh" or "max"
};

/// Reads a level, if `row` is there, in place of one that was read before.
void read_effort(field_reader& reader, const field_spec& row, effort_wish& out);

} // namespace paceline::wire
