// Decisions that need only a request's head.
#include "server/service.hpp"

#include "runtime/base/joined.hpp"
#include "server/http/error_reply.hpp"
#include "server/http/http_writer.hpp"

#include <algorithm>

namespace paceline::server {

namespace {

using wire::api_error;

constexpr std::uint64_t max_ignored_body_bytes = 64U
                                                 << 10U; ///< that an endpoint without a body reads and drops
constexpr std::string_view exposed_headers =
    "x-request-id, request-id, x-paceline-ignored-fields, retry-after, x-should-retry";

/// The client's x-request-id if it is valid, else a generated one.
std::string request_id_of(const request_head& head) {
  const auto given = head.header("x-request-id");
  const bool presentable =
      !given.empty() && given.size() <= 128 &&
      std::all_of(given.begin(), given.end(), [](char c) { return c > ' ' && c < 0x7f; });
  return presentable ? std::string(given) : fresh_id("req_");
}

bool is_json(std::string_view content_type) {
  const auto type = content_type.substr(0, content_type.find(';'));
  std::string lower;
  for (const char c : type)
    if (c != ' ' && c != '\t') lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return lower == "application/json";
}

/// Headers that allow a page of a permitted origin to read the reply.
header_list cors_headers(std::string_view origin) {
  if (origin.empty()) return {};
  return {{"Access-Control-Allow-Origin", std::string(origin)},
          {"Vary", "Origin"},
          {"Access-Control-Expose-Headers", std::string(exposed_headers)}};
}

/// Checks of the body's headers before it is read. The decoder of a chunked body counts its bytes.
std::optional<api_error> judge_body(const request_head& head, endpoint target, std::uint64_t max_bytes) {
  const auto length = head.content_length.value_or(0);
  if (!takes_body(target)) {
    if (length > max_bytes)
      return api_error{413, "invalid_request_error", "body_too_large", "this endpoint takes no body", "", 0};
    return std::nullopt;
  }
  if (!head.content_length && !head.is_chunked)
    return api_error{411,
                     "invalid_request_error",
                     "length_required",
                     "Content-Length or Transfer-Encoding: chunked is required",
                     "",
                     0};
  if (length > max_bytes)
    return api_error{413,
                     "invalid_request_error",
                     "body_too_large",
                     "the body has " + std::to_string(length) + " bytes; at most " +
                         std::to_string(max_bytes) + " are read",
                     "",
                     0};
  if (!is_json(head.header("content-type")))
    return api_error{415,
                     "invalid_request_error",
                     "unsupported_media_type",
                     "the Content-Type must be application/json",
                     "",
                     0};
  return std::nullopt;
}

struct head_failure {
  api_error why;
  header_list headers; ///< that belong to it
};

/// The route of a request, or why it has none.
std::variant<route, head_failure> route_of(const request_head& head, bool metrics_enabled) {
  auto found = find_route(head.method, head.path);
  if (const auto* missing = std::get_if<no_route>(&found)) {
    if (missing->allowed_methods.empty())
      return head_failure{{404, "not_found_error", "not_found", why_missing(head.path), "", 0}, {}};
    return head_failure{
        {405, "invalid_request_error", "method_not_allowed", "this path does not take " + head.method, "", 0},
        {{"Allow", joined(missing->allowed_methods, ", ") + ", OPTIONS"}}};
  }
  auto& place = std::get<route>(found);
  if ((place.target == endpoint::metrics || place.target == endpoint::events) && !metrics_enabled)
    return head_failure{{404, "not_found_error", "not_found", "metrics are switched off", "", 0}, {}};
  return std::move(place);
}

/// Load balancers check health and the page with HTTP/1.0 and without a Host. No browser sends such a
/// request, and these paths reveal nothing.
bool answers_without_host(const request_head& head) {
  const auto found = find_route("GET", head.path);
  const auto* place = std::get_if<route>(&found);
  return place != nullptr && is_open(place->target, false);
}

/// The reply to OPTIONS on a path that accepts `methods`. `requested` lists the headers that a page wants to
/// send.
http_reply options_reply(const std::vector<std::string_view>& methods, std::string_view requested,
                         header_list headers) {
  http_reply reply;
  reply.status = 204;
  reply.headers = std::move(headers);
  reply.headers.emplace_back("Allow", joined(methods, ", ") + ", OPTIONS");
  reply.headers.emplace_back("Access-Control-Allow-Methods", joined(methods, ", "));
  reply.headers.emplace_back("Access-Control-Allow-Headers", joined(permitted_headers(requested), ", "));
  reply.headers.emplace_back("Vary", "Access-Control-Request-Headers");
  reply.headers.emplace_back("Access-Control-Max-Age", "600");
  return reply;
}

} // namespace

/// Stores to which key the request belongs. Returns a failure if it has no valid key.
std::optional<api_error> service::identify(const request_head& head, const edge_settings& settings,
                                           caller& who) const {
  auto key = bearer_key(head.header("authorization"));
  if (head.header("authorization").empty()) {
    key = head.header("x-api-key"); // Anthropic's clients
    if (head.upgrades_to_websocket && key.empty())
      key = read_protocols(head.header("sec-websocket-protocol")).key;
  }
  const auto rights = settings.keys.find(key);
  if (!rights) {
    ++edge_.metrics.auth_failures;
    return api_error{401,
                     "authentication_error",
                     "invalid_api_key",
                     key.empty() ? "an API key is required" : "the API key is not valid",
                     "",
                     0};
  }
  who.tenant = to_hex(digest_of(key)).substr(0, 32);
  who.best_priority = rights->best_priority;
  return std::nullopt;
}

std::variant<admitted_request, answered_request> service::admit(request_head head) const {
  const auto settings = edge_.settings.get();
  const auto origin = head.header("origin");
  const auto request_id = request_id_of(head);
  const auto form = error_form_of(head.path);
  const bool has_body = head.has_body();
  auto base = id_headers(request_id, form);
  const auto refuse = [&](const api_error& failure, header_list extra = {}) {
    auto headers = base;
    headers.insert(headers.end(), extra.begin(), extra.end());
    edge_.metrics.count_refusal(failure.status);
    edge_.log.write(config::log_level::debug, "refused",
                    {{"status", failure.status}, {"code", failure.code}, {"request_id", request_id}});
    return answered_request{error_reply(failure, std::move(headers), form), has_body};
  };
  if (head.host.empty() && !answers_without_host(head))
    return refuse(
        {400, "invalid_request_error", "malformed_request", "a Host header is required on this path", "", 0});
  if (!head.host.empty() &&
      !host_allowed(head.host, {edge_.options.host, !settings->keys.empty(), edge_.options.allowed_hosts}))
    return refuse({403, "permission_error", "host_not_allowed",
                   "the Host \"" + head.host + "\" is not served; server.allowed_hosts lists those that are",
                   "", 0});
  if (!origin_allowed(origin, head.host, settings->allowed_origins, settings->tls != nullptr))
    return refuse({403, "permission_error", "origin_not_allowed",
                   "pages of this origin may not use this server", "", 0});
  auto cors = cors_headers(origin);
  base.insert(base.end(), cors.begin(), cors.end());

  if (head.method == "OPTIONS") {
    const auto methods = methods_of(head.path);
    if (methods.empty()) return refuse({404, "not_found_error", "not_found", "no such path", "", 0});
    return answered_request{
        options_reply(methods, head.header("access-control-request-headers"), std::move(base)), has_body};
  }
  auto found = route_of(head, edge_.metrics_options.enabled);
  if (auto* nowhere = std::get_if<head_failure>(&found))
    return refuse(nowhere->why, std::move(nowhere->headers));
  admitted_request request;
  request.where = std::get<route>(std::move(found));
  request.who.request_id = request_id;
  request.cors = std::move(cors);
  const auto target = request.where.target;
  if (!settings->keys.empty() && !is_open(target, !settings->metrics_require_key))
    if (const auto stranger = identify(head, *settings, request.who)) return refuse(*stranger);
  if (target == endpoint::response_socket && !head.upgrades_to_websocket)
    return refuse({426, "invalid_request_error", "upgrade_required",
                   "GET /v1/responses is the WebSocket endpoint; POST for HTTP", "", 0},
                  {{"Upgrade", "websocket"}});
  if (needs_models(target))
    if (const auto status = edge_.runtime.loading()) return refuse(still_loading(*status));
  request.max_body_bytes = takes_body(target) ? edge_.options.max_body_bytes : max_ignored_body_bytes;
  if (const auto failure = judge_body(head, target, request.max_body_bytes)) return refuse(*failure);
  request.head = std::move(head);
  return request;
}

} // namespace paceline::server
