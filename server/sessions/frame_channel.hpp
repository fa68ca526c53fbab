#pragma once

#include "protocol/wire/text_source.hpp"
#include "server/http/request_body.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace paceline::server {

/// WebSocket close codes (RFC 6455 section 7.4.1, and IANA's registry for 1013).
enum class close_code : std::uint16_t {
  /// The server drains, or the connection's lifetime has ended: the client may connect again.
  going_away = 1001,
  unsupported_data = 1003, ///< a binary message
  try_again = 1013,        ///< too many large messages arrive at the same time
};

/// Sends messages to the client of one WebSocket connection. All functions are called on the connection's
/// executor.
class frame_channel {
 public:
  virtual ~frame_channel() = default;
  virtual void send(std::string text) = 0;
  /// Sends one message, generated as the client reads it.
  virtual void send(std::unique_ptr<wire::text_source> text) = 0;
  /// Allows the next message to be read. Messages are handled one at a time.
  virtual void read_next() = 0;
  /// True while more output waits for the client than the connection's bound. The session should then pause
  /// until `frame_session::on_writable`.
  virtual bool congested() const = 0;
  /// Sets whether messages sent from now on are binary; initially false. Must be called only while nothing
  /// waits to be sent.
  virtual void send_binary(bool binary) = 0;
  /// Sends waiting messages, then closes. `reason` has at most 123 bytes (RFC 6455 section 5.5).
  virtual void close(close_code code, std::string_view reason) = 0;
};

/// Handles the messages of one WebSocket connection and sends on its channel. All functions are called on the
/// connection's executor.
class frame_session {
 public:
  virtual ~frame_session() = default;
  /// Handles one text message. Calls the channel's `read_next` when it is done.
  virtual void on_text(request_body message) = 0;
  virtual void on_binary(request_body message) = 0;
  /// The message that is arriving does not fit into `body_budget`, the memory limit for the request bodies
  /// and messages of all connections. Sends an error and closes with 1013.
  virtual void on_overload() = 0;
  /// The channel is no longer congested.
  virtual void on_writable() = 0;
  virtual void on_disconnect() = 0;
  /// From now on refuses requests for new responses; closes with 1001 once no response is in flight.
  virtual void drain() = 0;
  /// The lifetime of the connection has ended: tells the client, then drains.
  virtual void expire() = 0;
  /// The server stops: ends running responses with an error, then closes with 1001.
  virtual void shut_down() = 0;
  /// True while responses are in flight.
  virtual bool busy() const noexcept = 0;
};

/// Makes the session of a new connection.
using frame_session_factory = std::function<std::shared_ptr<frame_session>(std::shared_ptr<frame_channel>)>;

} // namespace paceline::server
