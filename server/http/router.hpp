#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace paceline::server {

/// The endpoint that a request addresses.
enum class endpoint {
  models,
  model,
  completions,
  chat_completions,
  messages, ///< Anthropic's form of a chat
  count_tokens,
  create_response,
  count_input,     ///< the number of a response's prompt tokens
  response_socket, ///< GET /v1/responses with an upgrade to WebSocket
  get_response,    ///< resumes a response or reads a finished one
  cancel_response,
  delete_response,
  input_items, ///< the prompt of a stored response
  tokenize,
  detokenize,
  tokenizer_info,
  live,
  ready,
  metrics,
  events, ///< /paceline/events: the running generations, once a second
  openapi,
  page,      ///< "/"
  page_file, ///< the files of the page
};

struct route {
  endpoint target = endpoint::live;
  std::string id; ///< the variable part of the path: a model's name or a response's id
};

/// The path does not exist (status 404), or does not take this method (status 405).
struct no_route {
  std::vector<std::string_view> allowed_methods; ///< empty: no such path
};

/// One row of the routing table.
struct endpoint_path {
  std::string_view method;
  /// '*' matches the rest of the path, including '/', because a model's name may contain one.
  std::string_view path;
  endpoint target;
};
std::span<const endpoint_path> all_paths() noexcept;
/// Name of the variable for which the '*' of an endpoint's path stands: "model", "response_id" or "file".
std::string_view variable_of(endpoint target) noexcept;

/// HEAD is routed like GET. OPTIONS must be handled before this call.
std::variant<route, no_route> find_route(std::string_view method, std::string_view path);

/// The methods of a path, for Allow headers; empty if there is no such path.
std::vector<std::string_view> methods_of(std::string_view path);

/// Error message for a path that does not exist. Names a similar path, if there is one.
std::string why_missing(const std::string& path);

/// Label of an endpoint in metrics.
std::string_view to_string(endpoint target) noexcept;

/// True if the endpoint takes a JSON body.
bool takes_body(endpoint target) noexcept;
/// True if the endpoint needs a model, so that it fails while models are being loaded.
bool needs_models(endpoint target) noexcept;
/// True if the endpoint needs no key even when keys are configured. `open_metrics`: /metrics and
/// /paceline/events need none.
bool is_open(endpoint target, bool open_metrics) noexcept;

} // namespace paceline::server
