#include "protocol/wire/api_error.hpp"

#include "protocol/wire/json_writer.hpp"

namespace paceline::wire {

void write_error(json_writer& out, const api_error& failure) {
  out.begin_object().field("message", failure.message).field("type", failure.type);
  out.key("param").string_or_null(failure.param);
  out.key("code").string_or_null(failure.code);
  out.end_object();
}

api_error invalid_value(std::string param, std::string message) {
  return {400, "invalid_request_error", "invalid_value", std::move(message), std::move(param), 0};
}

api_error unsupported(std::string param, std::string message) {
  return {400, "invalid_request_error", "unsupported_parameter", std::move(message), std::move(param), 0};
}

api_error from_error(const error& failure, std::string param) {
  const auto reply = [&](int status, const char* type, std::string_view code, int retry_after = 0) {
    return api_error{status, type, std::string(code), failure.message(), param, retry_after};
  };
  switch (failure.code()) {
  case errc::invalid_argument:
    return reply(400, "invalid_request_error", "invalid_value");
  case errc::unsupported:
    return reply(400, "invalid_request_error", "unsupported_parameter");
  case errc::context_length_exceeded:
    return reply(400, "invalid_request_error", "context_length_exceeded");
  case errc::not_found:
    return reply(404, "not_found_error", "not_found");
  case errc::queue_full:
    return reply(429, "rate_limit_error", "queue_full", 1);
  case errc::deadline_exceeded:
    return reply(408, "timeout_error", "deadline_exceeded");
  case errc::draining:
    return reply(503, "service_unavailable_error", "draining", 5);
  case errc::pool_full:
  case errc::state_slots_full:
  case errc::resource_exhausted:
    return reply(503, "service_unavailable_error", to_string(failure.code()), 1);
  case errc::cancelled:
    return reply(499, "cancelled_error", "cancelled");
  case errc::device_lost: {
    // The worker is being restarted. The log has the cause, and the client need not know it.
    return {503, "service_unavailable_error", "device_lost", "a worker was lost and is being restarted", "",
            1};
  }
  case errc::out_of_service: // retrying on this server is pointless, so there is no Retry-After
    return {503,
            "service_unavailable_error",
            "out_of_service",
            "the model is out of service until the server is restarted",
            "",
            0};
  case errc::invalid_file:
  case errc::stale:
  case errc::internal:
    break;
  }
  return {500, "server_error", "internal", "the server failed to process this request", "", 0};
}

std::string to_json(const api_error& failure) {
  json_writer out;
  out.begin_object().key("error");
  write_error(out, failure);
  return out.end_object().take();
}

std::string to_error_event(const api_error& failure, std::uint64_t sequence_number) {
  json_writer out;
  out.begin_object().field("type", "error").field("sequence_number", sequence_number);
  out.key("code").string_or_null(failure.code).field("message", failure.message);
  out.key("param").string_or_null(failure.param).field("status", failure.status).key("error");
  write_error(out, failure);
  return out.end_object().take();
}

std::string to_error_frame(const api_error& failure, const std::string& stream_id) {
  json_writer out;
  out.begin_object().field("type", "error").field("status", failure.status);
  if (!stream_id.empty()) out.field("stream_id", stream_id);
  out.key("error");
  write_error(out, failure);
  return out.end_object().take();
}

} // namespace paceline::wire
