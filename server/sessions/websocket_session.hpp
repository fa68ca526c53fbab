#pragma once

#include "server/sessions/conversation_store.hpp"
#include "server/sessions/frame_channel.hpp"
#include "server/sessions/response_launch.hpp"

#include <deque>
#include <map>
#include <memory>
#include <string>

namespace paceline::server {

/// The Responses WebSocket mode on one connection: receives `response.create` and `response.cancel`, and
/// sends `response.*` events and error frames. A lane is a stream_id and has at most one response in flight.
/// Runs on the connection's executor; uses no sockets.
class websocket_session final : public frame_session, public std::enable_shared_from_this<websocket_session> {
 public:
  websocket_session(const response_services& services, executor_ptr executor,
                    std::shared_ptr<frame_channel> channel, caller who);
  ~websocket_session() override;
  websocket_session(const websocket_session&) = delete;
  websocket_session& operator=(const websocket_session&) = delete;

  // frame_session
  void on_text(request_body message) override;
  void on_binary(request_body message) override;
  void on_overload() override;
  void on_writable() override;
  void on_disconnect() override;
  void drain() override;
  void expire() override;
  void shut_down() override;
  bool busy() const noexcept override { return !lanes_.empty(); }

  std::size_t num_lanes() const noexcept { return lanes_.size(); }

 private:
  class lane;
  friend class lane;

  /// Counts the memory of a message in the body budget until the texts parsed from it are tokenized.
  struct message_claim {
    bool large = false; ///< the message is larger than `large_body_bytes`
    std::shared_ptr<body_place> place;
  };

  void handle(std::variant<wire::client_frame, wire::refused_frame> frame, time_point arrival,
              message_claim claim);
  void create(wire::client_frame frame, time_point arrival, message_claim claim);
  void cancel(const wire::client_frame& frame);
  /// Remembers that a response has ended on this connection.
  void note_end(const std::string& response_id);
  /// True if the response is kept, or is one of the last responses that ended on this connection.
  bool has_ended(const std::string& response_id) const;
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
  std::deque<std::string> ended_; ///< ids of the last responses that ended here, the oldest first
  bool draining_ = false;
};

} // namespace paceline::server
