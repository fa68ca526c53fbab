#include "protocol/wire/client_requests.hpp"
#include "protocol/wire/field_reader.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include <algorithm>

namespace paceline::wire {

namespace json = boost::json;

namespace {

constexpr std::int64_t max_int32 = 2147483647;

std::optional<std::vector<token_id>> read_tokens(field_reader& reader, const json::array& ids,
                                                 const std::string& name) {
  std::vector<token_id> tokens;
  tokens.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!ids[i].is_int64() || ids[i].get_int64() < 0 || ids[i].get_int64() > max_int32) {
      reader.fail(name + "[" + std::to_string(i) + "]",
                  "must be a token id, not " + std::string(kind_of(ids[i])));
      return std::nullopt;
    }
    tokens.emplace_back(static_cast<std::int32_t>(ids[i].get_int64()));
  }
  return tokens;
}

/// string, [string], [id] or [[id]].
void read_prompts(field_reader& reader, std::size_t max_prompts, std::vector<prompt_input>& out) {
  const auto* prompt = reader.find("prompt");
  if (prompt == nullptr) {
    if (!reader.failure()) reader.fail("prompt", "is required");
    return;
  }
  if (const auto* text = prompt->if_string()) {
    out.emplace_back(std::string(text->data(), text->size()));
    return;
  }
  const auto* list = prompt->if_array();
  if (list == nullptr || list->empty())
    return reader.fail("prompt", "must be a string, an array of strings, token ids, or arrays of token ids");
  if (list->front().is_number()) {
    if (auto tokens = read_tokens(reader, *list, "prompt")) out.emplace_back(std::move(*tokens));
    return;
  }
  if (list->size() > max_prompts)
    return reader.fail("prompt", "must have at most " + std::to_string(max_prompts) + " prompts, has " +
                                     std::to_string(list->size()));
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto& element = (*list)[i];
    const auto name = "prompt[" + std::to_string(i) + "]";
    if (const auto* text = element.if_string(); text != nullptr && list->front().is_string()) {
      out.emplace_back(std::string(text->data(), text->size()));
    } else if (const auto* ids = element.if_array(); ids != nullptr && list->front().is_array()) {
      auto tokens = read_tokens(reader, *ids, name);
      if (!tokens) return;
      out.emplace_back(std::move(*tokens));
    } else {
      return reader.fail(name, "must be of the same kind as the first prompt, not " +
                                   std::string(kind_of(element)));
    }
  }
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
  reader.boolean("echo", request.echo);
  reader.integer("max_tokens", request.fields.max_tokens, request.echo ? 0 : 1, max_int32);
  reader.integer("logprobs", request.num_logprobs, 0, 5);
  reader.refuse("suffix", "infilling is not offered");
  reader.refuse("response_format", "structured output is not offered");
  std::uint32_t best_of = request.fields.num_choices;
  if (reader.integer("best_of", best_of, 1, limits.max_choices) && best_of != request.fields.num_choices)
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
  for (auto& name : reader.ignored()) request.fields.ignored_fields.push_back(std::move(name));
  return request;
}

parsed<tokenize_request> parse_tokenize_request(std::string_view body, const request_limits& limits) {
  auto fields = parse_object(body, {limits.max_body_bytes, limits.max_json_depth});
  if (!fields) return std::move(fields).failure();
  field_reader reader(*fields, "");
  tokenize_request request;
  reader.text("model", request.model, 0, 256);
  std::string text;
  for (const auto* name : {"prompt", "content"}) // vLLM's and llama-server's spelling
    if (reader.text(name, text, 0, limits.max_body_bytes)) request.text = text;
  if (!request.text && !reader.failure()) {
    read_messages(reader, limits.max_messages, request.prompt.messages);
    read_tools(reader, request.prompt.tools);
    reader.boolean("add_generation_prompt", request.prompt.add_generation_prompt);
    request.add_special_tokens = false; // the template writes them
  }
  for (const auto* name : {"add_special_tokens", "add_special"})
    reader.boolean(name, request.add_special_tokens);
  reader.boolean("parse_special", request.parse_special_tokens);
  for (const auto* name : {"return_token_strs", "with_pieces"}) reader.boolean(name, request.with_pieces);
  if (reader.failure()) return *reader.failure();
  request.ignored_fields = reader.ignored();
  return request;
}

parsed<detokenize_request> parse_detokenize_request(std::string_view body, const request_limits& limits) {
  auto fields = parse_object(body, {limits.max_body_bytes, limits.max_json_depth});
  if (!fields) return std::move(fields).failure();
  field_reader reader(*fields, "");
  detokenize_request request;
  reader.text("model", request.model, 0, 256);
  const auto* ids = reader.array("tokens", 0, limits.max_body_bytes);
  if (ids == nullptr && !reader.failure()) reader.fail("tokens", "is required");
  if (ids != nullptr)
    if (auto tokens = read_tokens(reader, *ids, "tokens")) request.tokens = std::move(*tokens);
  if (reader.failure()) return *reader.failure();
  request.ignored_fields = reader.ignored();
  return request;
}

} // namespace paceline::wire
