#pragma once

#include "protocol/wire/api_error.hpp"
#include "protocol/wire/messages_events.hpp"
#include "server/http/reply_channel.hpp"
#include "server/load_status.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace paceline::server {

/// The error of a request that arrives during a drain or is still running when the drain ends.
inline wire::api_error shutting_down() {
  return {503, "service_unavailable_error", "draining", "the server is shutting down", "", 5};
}

/// The error of a request that needs a model while the models are being loaded.
inline wire::api_error still_loading(const load_status& status) {
  return {503,       "service_unavailable_error",
          "loading", "the models are being loaded: " + std::to_string(status.percent()) + " %",
          "",        5};
}

/// The error of a request that is refused because too many jobs wait in edge_pool.
inline wire::api_error overloaded() {
  return {503, "service_unavailable_error", "overloaded", "too many requests wait to be parsed", "", 1};
}

/// The API whose error format is used.
enum class error_form : std::uint8_t { openai, anthropic };

/// The form that clients of a path expect.
inline error_form error_form_of(std::string_view path) noexcept {
  static constexpr std::string_view messages = "/v1/messages";
  if (path.starts_with("/models/")) path.remove_prefix(std::min(path.rfind(messages), path.size()));
  const bool is_below = path.starts_with(messages) &&
                        path.substr(messages.size(), 1).find_first_not_of('/') == std::string_view::npos;
  return is_below ? error_form::anthropic : error_form::openai;
}

/// The headers with a request's id, which clients of this form look for.
inline header_list id_headers(const std::string& request_id, error_form form) {
  header_list headers{{"x-request-id", request_id}};
  if (form == error_form::anthropic) headers.emplace_back("request-id", request_id);
  return headers;
}

/// False for an error after which a retry is useless: the same request fails again, or would be generated
/// again from the beginning. Judging by the status alone, OpenAI's and Anthropic's clients would retry it.
inline bool is_worth_retrying(const wire::api_error& failure) noexcept {
  static constexpr std::string_view hopeless[] = {"deadline_exceeded", "out_of_service", "reader_replaced",
                                                  "response_in_progress"};
  return std::find(std::begin(hopeless), std::end(hopeless), failure.code) == std::end(hopeless);
}

/// The HTTP reply for an error: status, JSON body, and the headers that belong to the status.
inline http_reply error_reply(const wire::api_error& failure, header_list headers = {},
                              error_form form = error_form::openai) {
  http_reply reply;
  reply.status = failure.status;
  reply.body = form == error_form::openai ? wire::to_json(failure) : wire::to_message_error(failure);
  reply.headers = std::move(headers);
  if (failure.retry_after_seconds > 0)
    reply.headers.emplace_back("Retry-After", std::to_string(failure.retry_after_seconds));
  if (!is_worth_retrying(failure)) reply.headers.emplace_back("x-should-retry", "false");
  if (failure.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

} // namespace paceline::server
