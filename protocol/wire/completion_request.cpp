#include "protocol/wire/client_requests.hpp"
#include "protocol/wire/constraint_fields.hpp"
#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/fields/field_table.hpp"
#include "protocol/wire/unsupported_fields.hpp"

namespace paceline::wire {

namespace {

std::optional<std::vector<token_id>> read_tokens(field_reader& reader, json_elements ids,
                                                 const std::string& name) {
  auto tokens = read_token_ids(ids);
  if (tokens) return tokens;
  std::size_t i = 0;
  for (const auto value : ids) {
    const auto id = value.int64();
    if (!id || *id < 0 || *id > max_int32) {
      reader.fail(indexed(name, i), "must be a token id, not " + std::string(kind_of(value)));
      break;
    }
    ++i;
  }
  return std::nullopt;
}

/// [string] or [[id]].
void read_prompt_list(field_reader& reader, json_elements list, std::size_t max_prompts,
                      std::vector<prompt_input>& out) {
  const auto first = *list.begin();
  if (const auto size = list.count(); size > max_prompts)
    return reader.fail("prompt", "must have at most " + std::to_string(max_prompts) + " prompts, has " +
                                     std::to_string(size));
  std::size_t i = 0;
  for (const auto element : list) {
    const auto name = indexed("prompt", i++);
    if (element.is_string() && first.is_string()) {
      out.emplace_back(*element.string());
    } else if (element.is_array() && first.is_array()) {
      auto tokens = read_tokens(reader, element.elements(), name);
      if (!tokens) return;
      out.emplace_back(std::move(*tokens));
    } else {
      return reader.fail(name, "must be of the same kind as the first prompt, not " +
                                   std::string(kind_of(element)));
    }
  }
}

/// string, [string], [id] or [[id]].
void read_prompts(field_reader& reader, std::size_t max_prompts, std::vector<prompt_input>& out) {
  const auto prompt = reader.find(spec("prompt", in::completions));
  if (!prompt) {
    reader.fail("prompt", "is required");
    return;
  }
  if (auto text = prompt->string()) {
    out.emplace_back(*std::move(text));
    return;
  }
  const auto list = prompt->elements();
  if (list.empty())
    return reader.fail("prompt", "must be a string, an array of strings, token ids, or arrays of token ids");
  if (!(*list.begin()).is_number()) return read_prompt_list(reader, list, max_prompts, out);
  if (auto tokens = read_tokens(reader, list, "prompt")) out.emplace_back(std::move(*tokens));
}

} // namespace

parsed<completion_request> parse_completion_request(std::string_view body, const request_limits& limits) {
  auto fields = parse_object(body, {limits.max_body_bytes, limits.max_json_depth});
  if (!fields) return std::move(fields).failure();
  field_reader reader(*fields, "");
  completion_request request;
  read_prompts(reader, limits.max_sequences, request.prompts);
  read_generation_fields(reader, limits, request.fields);
  read_paceline_object(reader, request.fields);
  reader.boolean(spec("echo"), request.echo);
  for (const auto* row :
       {&spec("n_predict"), &spec("max_tokens", in::completions)}) // llama-server's name first
    read_max_tokens(reader, *row, request.echo ? 0 : 1, request.fields);
  reader.integer(spec("logprobs", in::completions), request.num_logprobs);
  read_constraint(reader, request.fields.constraint);
  refuse_unsupported(reader, in::completions);
  std::uint32_t best_of = request.fields.num_choices;
  if (reader.integer(spec("best_of").name, best_of, spec("best_of").least, limits.max_choices) &&
      best_of != request.fields.num_choices)
    reader.fail(unsupported("best_of", "best_of: only the value of n is offered"));
  if (request.echo && request.fields.stream && request.fields.max_tokens == 0U)
    reader.fail("max_tokens", "must be at least 1 with stream: true");
  const auto sequences = std::uint64_t{request.fields.num_choices} * request.prompts.size();
  if (sequences > limits.max_sequences)
    reader.fail("n", "times the number of prompts must be at most " + std::to_string(limits.max_sequences) +
                         ", is " + std::to_string(sequences));
  if (reader.failure()) return *reader.failure();
  auto& sampling = request.fields.sampling;
  sampling.num_logprobs = request.num_logprobs;
  sampling.prompt_logprobs = request.echo && (request.num_logprobs || request.fields.max_tokens == 0U);
  add_ignored(reader.ignored(), request.fields);
  return request;
}

parsed<tokenize_request> parse_tokenize_request(std::string_view body, const request_limits& limits) {
  auto fields = parse_object(body, {limits.max_body_bytes, limits.max_json_depth});
  if (!fields) return std::move(fields).failure();
  field_reader reader(*fields, "");
  tokenize_request request;
  reader.text(spec("model"), request.model);
  std::string text;
  for (const auto* row : {&spec("prompt", in::tokenize), &spec("content", in::tokenize)})
    if (reader.text(*row, text)) request.text = std::move(text);
  read_tools(reader, request.prompt);
  read_template_arguments(reader, request.prompt, request.effort);
  if (!request.text && !reader.failure()) {
    read_messages(reader, limits.max_messages, request.prompt.messages);
    request.add_special_tokens = false; // the template writes them
  } else if (reader.find(spec("messages", in::tokenize))) {
    reader.fail("messages", "may not be given beside prompt");
  }
  // vLLM's names, then llama-server's.
  for (const auto* row : {&spec("add_special_tokens", in::tokenize), &spec("add_special")})
    reader.boolean(*row, request.add_special_tokens);
  reader.boolean(spec("parse_special"), request.parse_special_tokens);
  for (const auto* row : {&spec("return_token_strs"), &spec("with_pieces")})
    reader.boolean(*row, request.with_pieces);
  if (reader.failure()) return *reader.failure();
  request.ignored_fields = reader.ignored();
  return request;
}

parsed<detokenize_request> parse_detokenize_request(std::string_view body, const request_limits& limits) {
  auto fields = parse_object(body, {limits.max_body_bytes, limits.max_json_depth});
  if (!fields) return std::move(fields).failure();
  field_reader reader(*fields, "");
  detokenize_request request;
  reader.text(spec("model"), request.model);
  const auto ids = reader.array(spec("tokens"));
  if (!ids) reader.fail("tokens", "is required");
  if (ids)
    if (auto tokens = read_tokens(reader, *ids, "tokens")) request.tokens = std::move(*tokens);
  if (reader.failure()) return *reader.failure();
  request.ignored_fields = reader.ignored();
  return request;
}

} // namespace paceline::wire
