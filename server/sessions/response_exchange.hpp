#pragma once

#include "server/http/reply_channel.hpp"
#include "server/sessions/response_launch.hpp"

#include <memory>
#include <string>
#include <vector>

namespace paceline::server {

/// Answers POST /v1/responses and GET /v1/responses/{id}?stream=true: events over SSE, or one object. Runs on
/// its connection's executor. The opening events are held back until another event or a keep-alive follows,
/// so that an error before that can still become an HTTP status.
class response_exchange final : public exchange,
                                public replay_sink,
                                public std::enable_shared_from_this<response_exchange> {
 public:
  response_exchange(const response_services& services, executor_ptr executor,
                    std::shared_ptr<reply_channel> channel, caller who);

  /// `prepared`: the request, parsed and prepared by a thread of edge_pool, or the error to send.
  void start(wire::parsed<prepared_response> prepared);
  /// GET with ?stream=true: continues sending a resumable response.
  void resume(const std::string& response_id, const replay_start& start);

  void on_writable() override;
  void on_idle() override;
  void on_shutdown() override;
  void on_disconnect() override;

  void on_event(const wire::response_event& event) override;
  void on_finished(const finished_response& finished) override;
  void on_replaced() override;
  bool congested() const override;

 private:
  void adopt(wire::parsed<told_response> told);
  void begin_stream();
  void send(const wire::response_event& event);
  void fail(const wire::api_error& failure);
  void close();
  header_list headers() const;

  const response_services& services_;
  executor_ptr executor_;
  std::shared_ptr<reply_channel> channel_; ///< null once done
  caller who_;
  time_point arrival_;
  told_response told_;
  std::vector<std::string> ignored_fields_;
  std::vector<wire::response_event> held_events_; ///< the opening ones
  std::uint64_t next_sequence_number_ = 0;        ///< of the stream's next event
  bool stream_ = false;
  bool streaming_ = false;
};

} // namespace paceline::server
