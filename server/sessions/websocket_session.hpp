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
  going_away = 1001,       ///< draining, or the connection's lifetime is over: connect again
  unsupported_data = 1003, ///< a binary message
  policy_violation = 1008, ///< the client does not read, or floods
  too_big = 1009,
  internal_error = 1011,
  try_again = 1013, ///< too many large messages arrive at once
};

/// The client's end of one WebSocket connection. All calls on its executor.
class frame_channel {
 public:
  virtual ~frame_channel() = default;
  virtual void send(std::string text) = 0;
  /// One message, made as the client takes it.
  virtual void send(std::unique_ptr<wire::text_source> text) = 0;
  /// Lets the next message in: one is handled at a time.
  virtual void read_next() = 0;
  virtual bool congested() const = 0;
  /// Sends what waits, then closes.
  virtual void close(close_code code, std::string_view reason) = 0;
};

/// The Responses WebSocket mode on one connection: `response.create` and `response.cancel` in, `response.*`
/// events and error frames out. A lane is a stream_id; each has at most one response in flight. A state
/// machine on the connection's executor; knows no sockets.
class websocket_session final : public std::enable_shared_from_this<websocket_session> {
 public:
  websocket_session(const response_services& services, executor_ptr executor,
                    std::shared_ptr<frame_channel> channel, caller who);
  ~websocket_session();
  websocket_session(const websocket_session&) = delete;
  websocket_session& operator=(const websocket_session&) = delete;

  /// One text message. The channel's `read_next` follows when it has been dealt with.
  void on_text(request_body message);
  void on_binary();
  /// The message that arrives finds no room.
  void on_overload();
  void on_writable();
  void on_disconnect();
  /// No new responses; closes with 1001 once none is in flight.
  void drain();
  /// The connection has lived its time: says so, then drains.
  void expire();
  /// The server ends: what runs ends with an error, then it closes with 1001.
  void shut_down();

  std::size_t num_lanes() const noexcept { return lanes_.size(); }

 private:
  class lane;
  friend class lane;

  /// On the memory of a message, whose texts are kept until they are tokens.
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
  std::shared_ptr<frame_channel> channel_; ///< none once closed
  caller who_;
  conversation_store conversations_;
  std::map<std::string, std::shared_ptr<lane>> lanes_;
  bool draining_ = false;
};

} // namespace paceline::server
