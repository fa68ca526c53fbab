#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace paceline {

/// Error codes. Values are stable: append, never renumber.
enum class errc : std::uint8_t {
  invalid_argument = 1,    ///< a value violates a rule; the message names field, value and rule
  invalid_file,            ///< a model, tokenizer or configuration file violates its format
  unsupported,             ///< well-formed and known, but not supported by this build
  not_found,               ///< no such file, model or request
  context_length_exceeded, ///< prompt plus requested tokens do not fit; the message has both numbers
  queue_full,              ///< admission refused; try again later
  pool_full,               ///< not enough free KV blocks now; an ordinary answer, no fault
  cancelled,               ///< cancelled by the client, or the client left
  deadline_exceeded,       ///< the request's time limit has passed
  stale,                   ///< the message belongs to an earlier epoch (ids.hpp) or base length
  draining,                ///< shutting down: no new work
  device_lost,             ///< the device or a peer failed; the actor that uses it is restarted
  resource_exhausted,      ///< memory, threads or file descriptors
  internal,                ///< a broken invariant, confined to one request or one worker
  out_of_service,   ///< a part that the request needs has failed and will not work again in this process
  state_slots_full, ///< like pool_full, but not enough free slots of recurrent states
};

/// Name of `code` as it appears on the wire and in logs.
std::string_view to_string(errc code) noexcept;

/// A failure as a value. `message` is written for users: it names the file, line or field and the rule.
class error {
 public:
  error(errc code, std::string message) : code_(code), message_(std::move(message)) {}

  errc code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }

  /// The same error with the message "WHERE: MESSAGE".
  error within(std::string_view where) &&;

  friend bool operator==(const error&, const error&) = default;

 private:
  errc code_;
  std::string message_;
};

} // namespace paceline
