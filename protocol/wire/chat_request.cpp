#include "protocol/wire/client_requests.hpp"
#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/unsupported_fields.hpp"

namespace paceline::wire {

namespace {

/// Reads the template arguments that a client may set. The list is closed, because the other variables are
/// the server's.
void read_template_arguments(field_reader& outer, chat_prompt& out) {
  outer.boolean("add_generation_prompt", out.add_generation_prompt);
  const auto fields = outer.object("chat_template_kwargs");
  if (!fields) return;
  field_reader reader(*fields, outer.path_of("chat_template_kwargs"));
  bool thinking = false;
  if (reader.boolean("enable_thinking", thinking) || reader.boolean("thinking", thinking))
    out.enable_thinking = thinking;
  reader.accept({"enable_thinking", "thinking"});
  if (!reader.failure())
    for (const auto& name : reader.ignored())
      reader.fail(unsupported(name, name + ": only enable_thinking and thinking may be set"));
  if (reader.failure()) outer.fail(*reader.failure());
}

void read_modalities(field_reader& reader) {
  const auto modalities = reader.array("modalities", 0, 8);
  if (!modalities) return;
  for (const auto kind : *modalities)
    if (!kind.is_string("text"))
      reader.fail(unsupported("modalities", "modalities: only \"text\" is offered"));
}

} // namespace

parsed<chat_request> parse_chat_request(std::string_view body, const request_limits& limits) {
  auto fields = parse_object(body, {limits.max_body_bytes, limits.max_json_depth});
  if (!fields) return std::move(fields).failure();
  field_reader reader(*fields, "");
  chat_request request;
  read_messages(reader, limits.max_messages, request.prompt.messages);
  read_tools(reader, request.prompt.tools, request.prompt.parallel_tool_calls);
  read_reasoning_options(reader, request.fields.thoughts);
  read_template_arguments(reader, request.prompt);
  read_response_format(reader);
  read_generation_fields(reader, limits, request.fields);
  read_paceline_object(reader, request.fields);
  for (const auto* name : {"n_predict", "max_tokens", "max_completion_tokens"}) // llama-server's name first
    read_max_tokens(reader, name, 1, request.fields);
  bool logprobs = false;
  std::uint32_t num_top = 0;
  reader.boolean("logprobs", logprobs);
  if (reader.integer("top_logprobs", num_top, 0, 20) && !logprobs && num_top > 0)
    reader.fail("top_logprobs", "needs logprobs: true");
  read_modalities(reader);
  std::string effort;
  if (reader.text("reasoning_effort", effort, 1, 64)) request.fields.reasoning = "reasoning_effort";
  refuse_unsupported_chat(reader);
  if (reader.failure()) return *reader.failure();
  if (logprobs) request.num_logprobs = num_top;
  request.fields.sampling.num_logprobs = request.num_logprobs;
  add_ignored(reader.ignored(), request.fields);
  return request;
}

} // namespace paceline::wire
