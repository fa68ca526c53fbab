#pragma once

#include "runtime/base/error.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace paceline::wire {

class json_writer;

/// A refusal as the client sees it: an HTTP status and OpenAI's error object. `param` names the invalid field
/// in the client's own spelling ("messages[2].content"); if empty it is written as null. `message` never
/// contains addresses, paths or internal names.
struct api_error {
  int status = 400;
  std::string type = "invalid_request_error";
  std::string code; ///< empty prints as null
  std::string message;
  std::string param;
  int retry_after_seconds = 0; ///< > 0 becomes a Retry-After header

  friend bool operator==(const api_error&, const api_error&) = default;
};

/// The error for a value of the wrong type, out of range, or not in the allowed set.
api_error invalid_value(std::string param, std::string message);
/// The error for a known field or value that this server does not support. Such fields are never ignored
/// silently.
api_error unsupported(std::string param, std::string message);
/// Converts an error of the runtime to status, type and code.
api_error from_error(const error& failure, std::string param = {});

/// {"message":…,"type":…,"param":…,"code":…}, OpenAI's error object.
void write_error(json_writer& out, const api_error& failure);
/// {"error":{...}}, the body of every refusal.
std::string to_json(const api_error& failure);
/// {"type":"error","status":400,"error":{...}}, the frame of the WebSocket mode; `stream_id` empty = absent.
std::string to_error_frame(const api_error& failure, const std::string& stream_id);
/// The event "error" of a stream of responses. It has the members of the error twice: at the top level, as in
/// the Responses API, and in `error`. `sequence_number` is the number of this event.
std::string to_error_event(const api_error& failure, std::uint64_t sequence_number);

/// A parsed value, or the error to send to the client.
template <class T>
class [[nodiscard]] parsed {
 public:
  parsed(T value) : state_(std::in_place_index<0>, std::move(value)) {} // NOLINT: implicit by design
  parsed(api_error failure) : state_(std::in_place_index<1>, std::move(failure)) {} // NOLINT

  explicit operator bool() const noexcept { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const api_error& failure() const& { return std::get<1>(state_); }
  api_error&& failure() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, api_error> state_;
};

} // namespace paceline::wire
