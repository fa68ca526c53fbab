#pragma once

#include "server/http/request_body.hpp"
#include "server/sessions/conversation_store.hpp"
#include "server/sessions/response_launch.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace paceline::server {

/// WebSocket close codes this server uses (RFC 6455 section 7.4).
enum class close_code : std::uint16_t {
  normal = 1000,
  going_away = 1001,       ///< a drain, or the connection's lifetime has ended: connect again
  unsupported_data = 1003, ///< a binary message
  policy_violation = 1008, ///< the client does not read, or sends too much
  too_big = 1009,
  internal_error = 1011,
  try_again = 1013, ///< too many large messages arrive at the same time
};

/// The client's end of one WebSocket connection. All calls on its executor.
class frame_channel {
 public:
  virtual ~frame_channel() = default;
  virtual void send(std::string text) = 0;
  /// Sends one message, generated as the client reads it.
  virtual void send(std::unique_ptr<wire::text_source> text) = 0;
  /// Allows the next message to be read: they are handled one at a time.
  virtual void read_next() = 0;
  virtual bool congested() const = 0;
  /// Sends what waits, then closes.
  virtual void close(close_code code, std::string_view reason) = 0;
};

/// The Responses WebSocket mode on one connection: receives `response.create` and `response.cancel`, sends
/// `response.*` events and error frames. A lane is a stream_id and has at most one response in flight. A
/// state machine on the connection's executor; uses no sockets.
class websocket_session final : public std::enable_shared_from_this<websocket_session> {
 public:
  websocket_session(const response_services& services, executor_ptr executor,
                    std::shared_ptr<frame_channel> channel, caller who);
  ~websocket_session();
  websocket_session(const websocket_session&) = delete;
  websocket_session& operator=(const websocket_session&) = delete;

  /// Handles one text message. Calls the channel's `read_next` when it is done.
  void on_text(request_body message);
  void on_binary();
  /// There is no room for the message that is arriving.
  void on_overload();
  void on_writable();
  void on_disconnect();
  /// Accepts no new responses; closes with 1001 once none is in flight.
  void drain();
  /// The lifetime of the connection has ended: tells the client, then drains.
  void expire();
  /// The server stops: ends running responses with an error, then closes with 1001.
  void shut_down();

  std::size_t num_lanes() const noexcept { return lanes_.size(); }

 private:
  class lane;
  friend class lane;

  /// A claim on the memory of a message whose texts are kept until they are tokenized.
  struct message_claim {
    bool large = false; ///< to read
    std::shared_ptr<body_place> place;
  };

  void handle(std::variant<wire::client_frame, wire::refused_frame> frame, time_point arrival,
              message_claim claim);
  void create(wire::client_frame frame, time_point arrival, message_claim claim);
  void cancel(const wire::client_frame& frame);
  void launch_lane(const std::string& stream_id, wire::parsed<prepared_response> prepared,
                   time_point arrival);
  void refuse(const wire::api_error& failure, const std::string& stream_id);
  void end_lane(const std::string& stream_id);
  void close_if_drained();

  const response_services& services_;
  executor_ptr executor_;
  std::shared_ptr<frame_channel> channel_; ///< null once closed
  caller who_;
  conversation_store conversations_;
  std::map<std::string, std::shared_ptr<lane>> lanes_;
  bool draining_ = false;
};

} // namespace paceline::server
