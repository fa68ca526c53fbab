#include "protocol/wire/client_requests.hpp"
#include "protocol/wire/constraint_fields.hpp"
#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/fields/field_table.hpp"
#include "protocol/wire/unsupported_fields.hpp"

namespace paceline::wire {

namespace {

void read_modalities(field_reader& reader) {
  const auto modalities = reader.array(spec("modalities"));
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
  read_tools(reader, request.prompt);
  read_reasoning_options(reader, request.fields.thoughts);
  read_template_arguments(reader, request.prompt, request.fields.effort);
  read_constraint(reader, request.fields.constraint);
  read_generation_fields(reader, limits, request.fields);
  read_paceline_object(reader, request.fields);
  for (const auto* row : {&spec("n_predict"), &spec("max_tokens", in::chat), &spec("max_completion_tokens")})
    read_max_tokens(reader, *row, 1, request.fields); // llama-server's name first
  bool logprobs = false;
  std::uint32_t num_top = 0;
  reader.boolean(spec("logprobs", in::chat), logprobs);
  if (reader.integer(spec("top_logprobs", in::chat), num_top) && !logprobs && num_top > 0)
    reader.fail("top_logprobs", "needs logprobs: true");
  read_modalities(reader);
  refuse_unsupported(reader, in::chat);
  if (reader.failure()) return *reader.failure();
  if (logprobs) request.num_logprobs = num_top;
  request.fields.sampling.num_logprobs = request.num_logprobs;
  add_ignored(reader.ignored(), request.fields);
  return request;
}

} // namespace paceline::wire
