#include "server/openapi/operations.hpp"

namespace paceline::server {

namespace {

// The list includes the statuses that any request may get, such as 400 and 403, so that it is complete.
constexpr int of_generation[] = {400, 401, 403, 404, 408, 411, 413, 415, 429, 500, 503};
constexpr int of_conversion[] = {400, 401, 403, 404, 408, 411, 413, 415, 500, 503};
constexpr int of_models[] = {400, 401, 403, 503};
constexpr int of_model[] = {400, 401, 403, 404, 503};
constexpr int of_stored[] = {400, 401, 403, 404};
constexpr int of_reading[] = {400, 401, 403, 404, 409};
constexpr int of_socket[] = {400, 401, 403, 426, 503};
constexpr int of_metrics[] = {400, 401, 403, 404, 503};
constexpr int of_health[] = {400, 403, 503};
constexpr int of_pages[] = {400, 403};
constexpr int of_page_files[] = {400, 403, 404};

constexpr std::string_view model_parameter =
    R"({"name":"model","in":"query","description":"A configured name or alias; required where several models are served.","schema":{"type":"string"}})";
constexpr std::string_view reading_parameters =
    R"({"name":"stream","in":"query","description":"true: the events, otherwise the finished object.","schema":{"type":"string"}},)"
    R"({"name":"starting_after","in":"query","description":"The last sequence_number that was read.","schema":{"type":"integer","minimum":0}},)"
    R"({"name":"next_token","in":"query","description":"Output index of the first token that was not read.","schema":{"type":"integer","minimum":0}})";

constexpr std::string_view page_parameters =
    R"({"name":"limit","in":"query","description":"Items in the page.","schema":{"type":"integer","minimum":1,"maximum":100,"default":20}},)"
    R"({"name":"order","in":"query","description":"desc: the newest first.","schema":{"enum":["asc","desc"],"default":"desc"}},)"
    R"({"name":"after","in":"query","description":"Id of the item before the page.","schema":{"type":"string"}})";

constexpr operation completions{.id = "create_completion",
                                .summary = "Text or tokens in, text out",
                                .body = wire::in::completions,
                                .example = R"({"prompt":"Once upon a time","max_tokens":8,"seed":7})",
                                .reply = "completion",
                                .events = "completion_chunk",
                                .failures = of_generation};
constexpr operation chat{.id = "create_chat_completion",
                         .summary = "Messages in, through the model's own chat template",
                         .body = wire::in::chat,
                         .example = R"({"messages":[{"role":"user","content":"Hello"}],"max_tokens":8})",
                         .reply = "chat_completion",
                         .events = "chat_chunk",
                         .failures = of_generation};
constexpr operation messages{.id = "create_message",
                             .summary = "A chat in Anthropic's form",
                             .body = wire::in::messages,
                             .example = R"({"max_tokens":8,"messages":[{"role":"user","content":"Hello"}]})",
                             .reply = "message",
                             .events = "message_event",
                             .error = "message_error",
                             .failures = of_generation};
constexpr operation count_tokens{.id = "count_message_tokens",
                                 .summary = "The number of tokens of a message's prompt",
                                 .body = wire::in::count_tokens,
                                 .example = R"({"messages":[{"role":"user","content":"Hello"}]})",
                                 .reply = "message_count",
                                 .error = "message_error",
                                 .failures = of_conversion};
constexpr operation count_input{.id = "count_response_input",
                                .summary = "The number of tokens of a response's prompt",
                                .body = wire::in::responses,
                                .example = R"({"input":"Hello"})",
                                .reply = "input_count",
                                .failures = of_conversion};
constexpr operation create_response{.id = "create_response",
                                    .summary = "The Responses API",
                                    .body = wire::in::responses,
                                    .example = R"({"input":"Hello","max_output_tokens":8})",
                                    .reply = "response",
                                    .events = "response_event",
                                    .failures = of_generation};
constexpr operation response_socket{
    .id = "open_response_socket",
    .summary = "The Responses WebSocket mode",
    .description =
        "Upgrades to WebSocket. Frames are those of docs/protocol.md; without the upgrade it is 426.",
    .failures = of_socket};
constexpr operation get_response{.id = "get_response",
                                 .summary =
                                     "A stored response: its object; of a resumable one also its events",
                                 .reply = "response",
                                 .events = "response_event",
                                 .parameters = reading_parameters,
                                 .failures = of_reading};
constexpr operation delete_response{.id = "delete_response",
                                    .summary = "Forgets a stored response",
                                    .reply = "deleted_response",
                                    .failures = of_reading};
constexpr operation input_items{.id = "list_response_input_items",
                                .summary = "The prompt of a stored response as items, in pages",
                                .reply = "input_item_list",
                                .parameters = page_parameters,
                                .failures = of_stored};
constexpr operation cancel_response{.id = "cancel_response",
                                    .summary = "Ends a running response",
                                    .reply = "response",
                                    .failures = of_stored};
constexpr operation models{
    .id = "list_models", .summary = "What is served", .reply = "model_list", .failures = of_models};
constexpr operation model{.id = "get_model", .summary = "One model", .reply = "model", .failures = of_model};
constexpr operation tokenize{.id = "tokenize",
                             .summary = "Text or messages in, tokens out",
                             .body = wire::in::tokenize,
                             .example = R"({"prompt":"Hello","return_token_strs":true})",
                             .reply = "token_list",
                             .failures = of_conversion};
constexpr operation detokenize{.id = "detokenize",
                               .summary = "Tokens in, text out",
                               .body = wire::in::detokenize,
                               .example = R"({"tokens":[72,105]})",
                               .reply = "token_text",
                               .failures = of_conversion};
constexpr operation tokenizer_info{.id = "get_tokenizer_info",
                                   .summary = "Special tokens, as vLLM shows them",
                                   .reply = "tokenizer_info",
                                   .parameters = model_parameter,
                                   .failures = of_model};
constexpr operation live{.id = "get_liveness",
                         .summary = "Whether the process can answer, also while draining",
                         .reply = "health",
                         .failures = of_health};
constexpr operation ready{.id = "get_readiness",
                          .summary = "Whether new requests are accepted",
                          .reply = "health",
                          .error = "unready",
                          .failures = of_health};
constexpr operation metrics{.id = "get_metrics",
                            .summary = "Metrics as Prometheus reads them",
                            .media = "text/plain",
                            .failures = of_metrics};
constexpr operation events{
    .id = "watch_events",
    .summary = "What runs at the moment, once a second",
    .description = "A stream without an end, but for `limit` and the end of the server.",
    .media = "",
    .events = "snapshot",
    .parameters =
        R"({"name":"limit","in":"query","description":"Snapshots after which the stream ends.","schema":{"type":"integer","minimum":1,"maximum":1000000}})",
    .failures = of_metrics};
constexpr operation openapi{
    .id = "get_openapi", .summary = "This document", .reply = "openapi", .failures = of_pages};
constexpr operation page{
    .id = "get_playground", .summary = "A page to chat with", .media = "text/html", .failures = of_pages};
constexpr operation page_file{.id = "get_page_file",
                              .summary = "A script or style of the page",
                              .media = "text/*",
                              .failures = of_page_files};

} // namespace

const operation& operation_of(endpoint target) noexcept {
  switch (target) {
  case endpoint::completions:
    return completions;
  case endpoint::chat_completions:
    return chat;
  case endpoint::messages:
    return messages;
  case endpoint::count_tokens:
    return count_tokens;
  case endpoint::count_input:
    return count_input;
  case endpoint::create_response:
    return create_response;
  case endpoint::response_socket:
    return response_socket;
  case endpoint::get_response:
    return get_response;
  case endpoint::cancel_response:
    return cancel_response;
  case endpoint::delete_response:
    return delete_response;
  case endpoint::input_items:
    return input_items;
  case endpoint::models:
    return models;
  case endpoint::model:
    return model;
  case endpoint::tokenize:
    return tokenize;
  case endpoint::detokenize:
    return detokenize;
  case endpoint::tokenizer_info:
    return tokenizer_info;
  case endpoint::live:
    return live;
  case endpoint::ready:
    return ready;
  case endpoint::metrics:
    return metrics;
  case endpoint::events:
    return events;
  case endpoint::openapi:
    return openapi;
  case endpoint::page:
    return page;
  case endpoint::page_file:
    return page_file;
  }
  return page;
}

} // namespace paceline::server
