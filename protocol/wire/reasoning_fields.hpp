#pragma once

#include <string>

namespace paceline::wire {

class field_reader;
struct chat_prompt;
struct field_spec;

/// How the model's reasoning (its *thoughts*) is returned.
struct reasoning_options {
  bool split = true; ///< thoughts are returned in a field of their own; false: in the text, with delimiters
  bool shown = true; ///< false: thoughts are not returned; only with `split`
};

/// Reads `reasoning_format` (llama-server: auto, deepseek, none), `separate_reasoning` (SGLang) and
/// `include_reasoning` (vLLM). The first two set `split`; `separate_reasoning` has precedence. The third sets
/// `shown`. Errors are kept by `reader`.
void read_reasoning_options(field_reader& reader, reasoning_options& out);

/// How much the model is asked to reason. The effect depends on the model's chat template.
struct effort_wish {
  std::string field; ///< path of the request's field that gave the level; empty: there is no level
  std::string level; ///< "none", "minimal", "low", "medium", "high", "xhigh" or "max"
};

/// If the field that `row` describes is present, stores its level in `out`, in place of an earlier one.
/// Errors are kept by `reader`.
void read_effort(field_reader& reader, const field_spec& row, effort_wish& out);

/// Reads the arguments of the chat template that a client may set: `add_generation_prompt`,
/// `enable_thinking`, `chat_template_kwargs` and `reasoning_effort`. The list is closed, because the server
/// sets the other variables. Errors are kept by `reader`.
void read_template_arguments(field_reader& reader, chat_prompt& prompt, effort_wish& effort);

} // namespace paceline::wire
