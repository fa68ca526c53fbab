#include "server/http/router.hpp"

#include <algorithm>

namespace paceline::server {

namespace {

constexpr endpoint_path routes[] = {
    {"GET", "/v1/models", endpoint::models},
    {"GET", "/v1/models/*", endpoint::model},
    // Each model has its own base URL, for clients that name no model.
    {"POST", "/models/*/v1/completions", endpoint::completions},
    {"POST", "/models/*/v1/chat/completions", endpoint::chat_completions},
    {"POST", "/models/*/v1/messages", endpoint::messages},
    {"POST", "/models/*/v1/messages/count_tokens", endpoint::count_tokens},
    {"POST", "/models/*/tokenize", endpoint::tokenize},
    {"POST", "/models/*/detokenize", endpoint::detokenize},
    {"GET", "/models/*/tokenizer_info", endpoint::tokenizer_info},
    {"POST", "/v1/completions", endpoint::completions},
    {"POST", "/v1/chat/completions", endpoint::chat_completions},
    {"POST", "/v1/messages", endpoint::messages},
    {"POST", "/v1/messages/count_tokens", endpoint::count_tokens},
    {"POST", "/v1/responses", endpoint::create_response},
    {"POST", "/v1/responses/input_tokens", endpoint::count_input},
    {"GET", "/v1/responses", endpoint::response_socket},
    {"POST", "/v1/responses/*/cancel", endpoint::cancel_response},
    {"GET", "/v1/responses/*/input_items", endpoint::input_items},
    {"GET", "/v1/responses/*", endpoint::get_response},
    {"DELETE", "/v1/responses/*", endpoint::delete_response},
    {"POST", "/tokenize", endpoint::tokenize},
    {"POST", "/v1/tokenize", endpoint::tokenize},
    {"POST", "/detokenize", endpoint::detokenize},
    {"POST", "/v1/detokenize", endpoint::detokenize},
    {"GET", "/tokenizer_info", endpoint::tokenizer_info},
    {"GET", "/livez", endpoint::live},
    {"GET", "/healthz", endpoint::live},
    {"GET", "/readyz", endpoint::ready},
    {"GET", "/health", endpoint::ready},
    {"GET", "/v1/health", endpoint::ready},
    {"GET", "/metrics", endpoint::metrics},
    {"GET", "/paceline/events", endpoint::events},
    {"GET", "/openapi.json", endpoint::openapi},
    {"GET", "/", endpoint::page},
    {"GET", "/page/*", endpoint::page_file},
};

/// Returns in `id` the part of `path` that matches the pattern's '*'; false if the path does not match.
bool matches(std::string_view pattern, std::string_view path, std::string& id) {
  const auto star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == path;
  const auto before = pattern.substr(0, star);
  const auto after = pattern.substr(star + 1);
  if (path.size() <= before.size() + after.size() || path.substr(0, before.size()) != before ||
      path.substr(path.size() - after.size()) != after)
    return false;
  id = std::string(path.substr(before.size(), path.size() - before.size() - after.size()));
  return true;
}

/// A response's id has no slash; "/v1/responses/x/cancel" is not one.
bool is_shadowed(const endpoint_path& row, const std::string& id) {
  return row.path.starts_with("/v1/responses/") && id.find('/') != std::string::npos;
}

} // namespace

std::span<const endpoint_path> all_paths() noexcept { return routes; }

std::string_view variable_of(endpoint target) noexcept {
  if (target == endpoint::page_file) return "file";
  const bool of_response = target == endpoint::get_response || target == endpoint::cancel_response ||
                           target == endpoint::input_items || target == endpoint::delete_response;
  return of_response ? "response_id" : "model";
}

std::variant<route, no_route> find_route(std::string_view method, std::string_view path) {
  if (method == "HEAD") method = "GET";
  for (const auto& row : routes) {
    route found;
    if (row.method == method && matches(row.path, path, found.id) && !is_shadowed(row, found.id)) {
      found.target = row.target;
      return found;
    }
  }
  return no_route{methods_of(path)};
}

std::vector<std::string_view> methods_of(std::string_view path) {
  std::vector<std::string_view> methods;
  for (const auto& row : routes) {
    std::string id;
    if (!matches(row.path, path, id) || is_shadowed(row, id)) continue;
    methods.push_back(row.method);
    if (row.method == "GET") methods.push_back("HEAD");
  }
  std::sort(methods.begin(), methods.end());
  methods.erase(std::unique(methods.begin(), methods.end()), methods.end());
  return methods;
}

std::string why_missing(const std::string& path) {
  static constexpr std::string_view version = "/v1";
  if (path == "/v1/embeddings" || path == "/embeddings")
    return "embeddings are not offered: this server generates text";
  // The base URL of the client lacks /v1, or has it although the client adds it, too.
  if (const auto meant = std::string(version) + path; !methods_of(meant).empty())
    return "no such path; did you mean " + meant + "?";
  if (const auto meant = path.substr(std::min(path.size(), version.size()));
      path.compare(0, version.size(), version) == 0 && !methods_of(meant).empty())
    return "no such path; did you mean " + meant + "?";
  return "no such path";
}

std::string_view to_string(endpoint target) noexcept {
  switch (target) {
  case endpoint::models:
    return "models";
  case endpoint::model:
    return "model";
  case endpoint::completions:
    return "completions";
  case endpoint::chat_completions:
    return "chat_completions";
  case endpoint::messages:
    return "messages";
  case endpoint::count_tokens:
    return "messages_count_tokens";
  case endpoint::create_response:
    return "responses";
  case endpoint::count_input:
    return "responses_input_tokens";
  case endpoint::response_socket:
    return "responses_websocket";
  case endpoint::get_response:
    return "responses_get";
  case endpoint::cancel_response:
    return "responses_cancel";
  case endpoint::delete_response:
    return "responses_delete";
  case endpoint::input_items:
    return "responses_input_items";
  case endpoint::tokenize:
    return "tokenize";
  case endpoint::detokenize:
    return "detokenize";
  case endpoint::tokenizer_info:
    return "tokenizer_info";
  case endpoint::live:
    return "livez";
  case endpoint::ready:
    return "readyz";
  case endpoint::metrics:
    return "metrics";
  case endpoint::events:
    return "events";
  case endpoint::openapi:
    return "openapi";
  case endpoint::page:
    return "playground"; // the label is kept for existing dashboards
  case endpoint::page_file:
    return "page_file";
  }
  return "unknown";
}

bool takes_body(endpoint target) noexcept {
  switch (target) {
  case endpoint::completions:
  case endpoint::chat_completions:
  case endpoint::messages:
  case endpoint::count_tokens:
  case endpoint::create_response:
  case endpoint::count_input:
  case endpoint::tokenize:
  case endpoint::detokenize:
    return true;
  default:
    return false;
  }
}

bool needs_models(endpoint target) noexcept {
  switch (target) {
  case endpoint::models:
  case endpoint::model:
  case endpoint::response_socket:
  case endpoint::tokenizer_info:
    return true;
  default:
    return takes_body(target);
  }
}

bool is_open(endpoint target, bool open_metrics) noexcept {
  return target == endpoint::live || target == endpoint::ready || target == endpoint::openapi ||
         target == endpoint::page || target == endpoint::page_file ||
         ((target == endpoint::metrics || target == endpoint::events) && open_metrics);
}

} // namespace paceline::server
