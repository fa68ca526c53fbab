#include "protocol/wire/client_requests.hpp"
#include "protocol/wire/field_reader.hpp"

namespace paceline::wire {

namespace {

constexpr std::int64_t max_int32 = 2147483647;

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

void read_response_format(field_reader& outer) {
  const auto fields = outer.object("response_format");
  if (!fields) return;
  field_reader reader(*fields, outer.path_of("response_format"));
  std::string type;
  if (!reader.text("type", type, 1, 64) && !reader.failure()) reader.fail("type", "is required");
  if (!reader.failure() && type != "text")
    reader.fail(unsupported("response_format", "response_format: only {\"type\": \"text\"} is offered"));
  if (reader.failure()) outer.fail(*reader.failure());
}

void refuse_chat_fields(field_reader& reader) {
  reader.refuse("audio", "only text is offered");
  reader.refuse("web_search_options", "web search is not offered");
  reader.refuse("functions", "use tools");
  reader.refuse("function_call", "use tool_choice");
  reader.refuse("reasoning_effort", "use chat_template_kwargs.enable_thinking");
  reader.refuse("verbosity", "this option is not offered");
  reader.refuse("chat_template", "the model's own template is used");
  reader.refuse("documents", "documents are not offered");
  bool continued = false;
  if (reader.boolean("continue_final_message", continued) && continued)
    reader.fail(unsupported("continue_final_message", "continue_final_message: is not offered"));
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
  read_tools(reader, request.prompt.tools);
  read_template_arguments(reader, request.prompt);
  read_response_format(reader);
  read_generation_fields(reader, limits, request.fields);
  read_paceline_object(reader, request.fields);
  reader.integer("max_tokens", request.fields.max_tokens, 1, max_int32);
  reader.integer("max_completion_tokens", request.fields.max_tokens, 1, max_int32);
  bool logprobs = false;
  std::uint32_t num_top = 0;
  reader.boolean("logprobs", logprobs);
  if (reader.integer("top_logprobs", num_top, 0, 20) && !logprobs && num_top > 0)
    reader.fail("top_logprobs", "needs logprobs: true");
  refuse_chat_fields(reader);
  if (reader.failure()) return *reader.failure();
  if (logprobs) request.num_logprobs = num_top;
  request.fields.sampling.num_logprobs = request.num_logprobs;
  add_ignored(reader.ignored(), request.fields);
  return request;
}

} // namespace paceline::wire
