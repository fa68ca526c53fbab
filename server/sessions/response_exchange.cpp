#include "server/sessions/response_exchange.hpp"

#include "server/http/error_reply.hpp"
#include "server/http/http_writer.hpp"
#include "server/http/long_reply.hpp"
#include "server/sessions/reply_headers.hpp"

#include <utility>

namespace paceline::server {

namespace {

/// True for events that only announce a response.
bool opens(const wire::response_event& event) {
  return event.type == "response.created" || event.type == "response.in_progress" ||
         event.type == "response.output_item.added" || event.type == "response.content_part.added";
}

} // namespace

response_exchange::response_exchange(const response_services& services, executor_ptr executor,
                                     std::shared_ptr<reply_channel> channel, caller who)
    : services_(services), executor_(std::move(executor)), channel_(std::move(channel)), who_(std::move(who)),
      arrival_(services.edge.now()) {}

header_list response_exchange::headers() const { return reply_headers(who_.request_id, ignored_fields_); }

void response_exchange::start(wire::parsed<prepared_response> prepared) {
  if (!channel_) return; // the client has left
  if (!prepared) return fail(prepared.failure());
  const auto& request = prepared->request;
  ignored_fields_ = request.fields.ignored_fields;
  stream_ = request.fields.stream;
  adopt(launch(services_, who_, executor_, shared_from_this(), *std::move(prepared), "", arrival_));
}

void response_exchange::resume(const std::string& response_id, const replay_start& start) {
  if (!channel_) return;
  stream_ = true;
  if (start.after_sequence) next_sequence_number_ = *start.after_sequence + 1;
  adopt(server::resume(services_, who_, executor_, shared_from_this(), response_id, start));
}

void response_exchange::adopt(wire::parsed<told_response> told) {
  if (told)
    told_ = *std::move(told);
  else
    fail(told.failure());
}

void response_exchange::begin_stream() {
  if (!std::exchange(streaming_, true)) channel_->begin_stream(headers());
  for (const auto& event : std::exchange(held_events_, {})) send(event);
}

void response_exchange::send(const wire::response_event& event) {
  next_sequence_number_ = event.sequence_number + 1;
  if (event.long_json)
    channel_->send(event.long_json->open(sse_prefix(event.type), std::string(sse_suffix)));
  else
    channel_->send(write_sse(event.type, event.json));
}

void response_exchange::fail(const wire::api_error& failure) {
  if (streaming_) {
    channel_->send(write_sse("error", wire::to_error_event(failure, next_sequence_number_)));
    channel_->finish();
  } else {
    channel_->reply(error_reply(failure, headers()));
  }
  close();
}

void response_exchange::close() {
  channel_.reset();
  told_.leave(services_.registry);
}

void response_exchange::on_writable() { told_.on_writable(); }

void response_exchange::on_idle() {
  if (!channel_ || !stream_ || !told_.active()) return;
  begin_stream();
  channel_->send(":\n\n");
}

void response_exchange::on_shutdown() {
  const auto self = shared_from_this(); // the connection releases this object once it is answered
  if (channel_ && !told_.fail(shutting_down())) fail(shutting_down());
}

void response_exchange::on_disconnect() { close(); }

bool response_exchange::congested() const { return channel_ && channel_->congested(); }

void response_exchange::on_event(const wire::response_event& event) {
  if (!channel_ || !stream_) return;
  if (!streaming_ && opens(event)) {
    held_events_.push_back(event);
    return;
  }
  if (!streaming_ && event.type == "response.failed") return; // becomes an HTTP status in on_finished
  begin_stream();
  send(event);
}

void response_exchange::on_finished(const finished_response& finished) {
  if (!channel_) return;
  if (finished.outcome.failure && !streaming_) return fail(*finished.outcome.failure);
  if (stream_) {
    begin_stream();
    channel_->send(write_sse("", "[DONE]"));
    channel_->finish();
  } else {
    reply_made(*channel_, finished.object.open(), headers());
  }
  close();
}

void response_exchange::on_replaced() {
  if (channel_)
    fail({409, "conflict_error", "reader_replaced", "another connection reads this response now", "", 0});
}

} // namespace paceline::server
