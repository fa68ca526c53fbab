#pragma once

#include "protocol/wire/messages_events.hpp"
#include "server/http/reply_channel.hpp"
#include "server/sessions/choice_reader.hpp"
#include "server/sessions/generation_group.hpp"
#include "server/sessions/preparation.hpp"

#include <memory>
#include <vector>

namespace paceline::server {

/// Answers one request of /v1/messages, streamed or whole, in Anthropic's form. It runs on its connection's
/// executor. The request is prepared before `start`; then its output is generated; when `channel_` is null,
/// the session is done. The first token or a ping begins the stream. Before that, and in a reply that is not
/// streamed, an error becomes an HTTP status. Afterwards status 200 has been sent, and the error becomes an
/// error event.
class message_session final : public exchange,
                              public generation_observer,
                              public std::enable_shared_from_this<message_session> {
 public:
  message_session(const edge_context& edge, executor_ptr executor, std::shared_ptr<reply_channel> channel,
                  caller who);

  /// `prepared`: the request, parsed and prepared by a thread of edge_pool, or the error to send.
  void start(wire::parsed<prepared_completion> prepared);

  void on_writable() override;
  void on_idle() override;
  void on_shutdown() override;
  void on_disconnect() override;
  void on_event(std::size_t sequence, const token_event& event) override;
  bool congested(std::size_t sequence) const override;

 private:
  void begin_stream();
  void send(const wire::message_event& event);
  void send_all(const std::vector<wire::message_event>& events);
  wire::message_ending ending_of(const token_event& last) const;
  void finish(const wire::message_ending& ending);
  void fail(const wire::api_error& failure);
  void close();
  header_list headers() const;

  const edge_context& edge_;
  executor_ptr executor_;
  std::shared_ptr<reply_channel> channel_; ///< null once done
  caller who_;
  time_point arrival_;
  prepared_completion request_;
  wire::message_identity identity_;
  wire::message_stream stream_{{}};
  choice_reader reader_;
  wire::output_items items_; ///< the whole output, if the reply is not streamed
  std::shared_ptr<generation_group> group_;
  bool streaming_ = false; ///< the event stream has begun: status 200 has been sent
};

} // namespace paceline::server
