#include "server/sessions/message_session.hpp"

#include "server/http/error_reply.hpp"
#include "server/http/http_writer.hpp"
#include "server/sessions/reply_headers.hpp"

#include <utility>

namespace paceline::server {

message_session::message_session(const edge_context& edge, executor_ptr executor,
                                 std::shared_ptr<reply_channel> channel, caller who)
    : edge_(edge), executor_(std::move(executor)), channel_(std::move(channel)), who_(std::move(who)),
      arrival_(edge.now()) {}

header_list message_session::headers() const {
  return reply_headers(who_.request_id, request_.ignored_fields, error_form::anthropic);
}

void message_session::start(wire::parsed<prepared_completion> prepared) {
  if (!channel_) return; // the client has left in the meantime
  if (!prepared) return fail(prepared.failure());
  request_ = *std::move(prepared);
  identity_ = {request_.client_id.empty() ? fresh_id("msg_") : "msg_" + request_.client_id,
               request_.model->limits().name};
  stream_ = wire::message_stream(identity_);
  reader_ = choice_reader(request_.output, *request_.model, request_.sequences.front().skip_special_tokens);
  group_ = std::make_shared<generation_group>(edge_, executor_, weak_from_this(), who_.tenant, arrival_);
  const auto refused = group_->start(*request_.model, std::move(request_.sequences),
                                     request_.stream ? pacing::client : pacing::engine);
  if (refused) fail(*refused);
}

bool message_session::congested(std::size_t) const {
  return channel_ && request_.stream && channel_->congested();
}

void message_session::on_writable() {
  if (group_) group_->on_writable();
}

void message_session::on_idle() {
  if (!channel_ || !request_.stream || !group_) return;
  begin_stream();
  send(wire::message_event{"ping", R"({"type":"ping"})"});
}

void message_session::on_shutdown() {
  if (channel_) fail(shutting_down());
}

void message_session::on_disconnect() {
  channel_.reset();
  if (group_ && group_->num_running() > 0) {
    ++edge_.metrics.disconnect_cancels;
    group_->cancel();
  }
  group_.reset();
}

void message_session::close() {
  channel_.reset();
  if (group_) group_->cancel();
  group_.reset();
}

void message_session::fail(const wire::api_error& failure) {
  if (streaming_) {
    send({"error", wire::to_message_error(failure)});
    channel_->finish();
  } else {
    channel_->reply(error_reply(failure, headers(), error_form::anthropic));
  }
  close();
}

void message_session::begin_stream() {
  if (std::exchange(streaming_, true)) return;
  channel_->begin_stream(headers());
  send(stream_.open(group_->prompt_tokens(0)));
}

void message_session::send(const wire::message_event& event) {
  channel_->send(write_sse(event.type, event.json));
}

void message_session::send_all(const std::vector<wire::message_event>& events) {
  for (const auto& event : events) send(event);
}

void message_session::on_event(std::size_t sequence, const token_event& event) {
  if (!channel_) return;
  if (event.finish == finish_reason::error)
    return fail(wire::from_error(event.failure.value_or(error{errc::internal, ""})));
  auto items = reader_.read(event);
  if (request_.stream) {
    begin_stream();
    send_all(stream_.add(items));
  } else {
    for (auto& item : items) append(items_, std::move(item));
  }
  if (event.finish != finish_reason::none) return finish(ending_of(event));
  if (reader_.wants_no_more()) group_->stop(sequence, event);
}

wire::message_ending message_session::ending_of(const token_event& last) const {
  wire::message_ending ending;
  ending.finish = reader_.finish_of(last.finish);
  ending.has_calls = reader_.has_calls();
  ending.stop_sequence = last.stop_string;
  wire::add(ending.used, last, group_->prompt_tokens(0), group_->num_tokens(0), true);
  ending.used.reasoning_tokens = reader_.num_reasoning_tokens();
  return ending;
}

void message_session::finish(const wire::message_ending& ending) {
  if (request_.stream) {
    send_all(stream_.close(ending));
    channel_->finish();
  } else {
    auto reply = json_reply(wire::whole_message(identity_, items_, ending));
    reply.headers = headers();
    channel_->reply(std::move(reply));
  }
  close();
}

} // namespace paceline::server
