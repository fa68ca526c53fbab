#pragma once

#include "protocol/wire/api_error.hpp"
#include "server/http/reply_channel.hpp"

namespace paceline::server {

/// The error of a request that arrives during a drain or is still running when the drain ends.
inline wire::api_error shutting_down() {
  return {503, "service_unavailable_error", "draining", "the server is shutting down", "", 5};
}

/// The error of a request for which the edge threads have no time.
inline wire::api_error overloaded() {
  return {503, "service_unavailable_error", "overloaded", "too many requests wait to be parsed", "", 1};
}

/// The HTTP reply for an error: status, JSON body, and the headers that belong to the status.
inline http_reply error_reply(const wire::api_error& failure, header_list headers = {}) {
  http_reply reply;
  reply.status = failure.status;
  reply.body = wire::to_json(failure);
  reply.headers = std::move(headers);
  if (failure.retry_after_seconds > 0)
    reply.headers.emplace_back("Retry-After", std::to_string(failure.retry_after_seconds));
  if (failure.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

} // namespace paceline::server
