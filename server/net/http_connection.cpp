#include "server/net/http_connection.hpp"

#include "protocol/wire/api_error.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>

#include <algorithm>

namespace paceline::server {

namespace asio = boost::asio;

namespace {

using std::chrono::milliseconds;

constexpr std::size_t max_pipelined_bytes = 16U << 10U; ///< read ahead while a request is processed
constexpr milliseconds first_sign_of_life{500};         ///< then every `keep_alive`
constexpr milliseconds linger_time{1000};               ///< time to receive and discard a refused body

} // namespace

template <class Stream>
void http_connection<Stream>::start(const connection_set::place& place) {
  ++metrics().connections_total;
  begin(place.held);
  const bool admitted = place.outcome == connection_set::admission::admitted;
  arm_deadline(admitted ? options_.header_timeout : linger_time);
  async_open(stream_, [self = shared_from_this(), admitted](const error_code& failure) {
    self->on_open(failure, admitted);
  });
}

template <class Stream>
void http_connection<Stream>::start_refusal(std::shared_ptr<connection_set::ticket> ticket) {
  context_.connections.replace(*ticket, shared_from_this());
  begin(std::move(ticket));
  refuse({400, "invalid_request_error", "malformed_request", "this port speaks TLS: use https", "", 0});
}

template <class Stream>
void http_connection<Stream>::begin(std::shared_ptr<connection_set::ticket> ticket) {
  ticket_ = std::move(ticket);
  out_.count_in(claim_output(context_, strand_, weak_from_this()));
  draining_ = context_.requests.draining(); // this connection may have missed the announcement
}

template <class Stream>
void http_connection<Stream>::on_open(const error_code& failure, bool admitted) {
  if constexpr (is_secure<Stream>) ++(failure ? metrics().tls_failures : metrics().tls_handshakes);
  if (state_ == state::closed) return;
  if (failure && is_plain_http(failure)) {
    state_ = state::closed; // as TLS
    deadline_.cancel();
    return std::make_shared<http_connection<tcp_socket>>(context_, std::move(socket_of(stream_)), strand_)
        ->start_refusal(std::move(ticket_));
  }
  if (failure) { // the TLS alert, if there is one, has been sent
    state_ = state::lingering;
    output_ended_ = true;
    return hang_up();
  }
  if (admitted) return next_request();
  refuse({503, "service_unavailable_error", "too_many_connections", "too many connections are open", "", 1});
}

template <class Stream>
void http_connection<Stream>::on_drain() {
  draining_ = true;
  const bool rests = state_ == state::head && in_.empty();
  if (rests && is_about_to_ask()) return;
  if (rests && out_.empty()) return part();
  if (rests || state_ == state::blocked) linger();
}

template <class Stream>
void http_connection<Stream>::next_request() {
  framing_.reset();
  if (out_.holds_back_requests()) {
    state_ = state::blocked; // until `on_written`; the write deadline watches the client
    deadline_.cancel();
    return;
  }
  state_ = state::head;
  arm_deadline(in_.empty() ? options_.idle_timeout : options_.header_timeout);
  advance();
}

/// Processes the available bytes, then reads more.
template <class Stream>
void http_connection<Stream>::advance() {
  if (state_ == state::head) take_head();
  if (state_ == state::body) take_body();
  read_more();
}

template <class Stream>
void http_connection<Stream>::take_head() {
  if (in_.empty()) return;
  const auto parsed = parse_request_head(in_, {options_.max_header_bytes, limits_.max_headers, 4096});
  if (std::holds_alternative<head_incomplete>(parsed)) return;
  if (const auto* refusal = std::get_if<head_refusal>(&parsed))
    return refuse({refusal->status, "invalid_request_error", "malformed_request", refusal->message, "", 0});
  auto& complete = std::get<head_complete>(parsed);
  in_.erase(0, complete.num_bytes);
  framing_.belong_to(complete.head);
  auto decision = context_.requests.admit(complete.head);
  if (auto* answered = std::get_if<answered_request>(&decision)) {
    if (!answered->close) {
      ticket_->note_request();
      state_ = state::answering;
      deadline_.cancel();
      return reply(std::move(answered->reply));
    }
    framing_.close_after();
    send_bytes(framing_.whole(answered->reply, false));
    return linger();
  }
  request_ = std::get<admitted_request>(std::move(decision));
  out_.belong_to(request_.who.tenant);
  if (request_.where.target == endpoint::response_socket) return upgrade();
  begin_body();
  if (request_.head.waits_for_continue() && in_.empty()) send_bytes("HTTP/1.1 100 Continue\r\n\r\n");
}

template <class Stream>
void http_connection<Stream>::begin_body() {
  const auto give_way = [weak = weak_from_this(), strand = strand_] {
    asio::post(strand, [weak] {
      const auto self = weak.lock();
      if (self && self->body_ && self->body_->has_to_give_way()) self->give_way();
    });
  };
  const body_pace pace{options_.header_timeout, options_.body_timeout, limits_.min_bytes_per_second};
  body_.emplace(request_.head, request_.max_body_bytes, pace, std::chrono::steady_clock::now(),
                context_.bodies, request_.who.tenant, give_way);
  state_ = state::body;
}

template <class Stream>
void http_connection<Stream>::give_way() {
  ++metrics().bodies_given_up;
  refuse({503, "service_unavailable_error", "overloaded", "too many large requests arrive at once", "", 1});
}

template <class Stream>
void http_connection<Stream>::take_body() {
  std::string_view arrived = in_;
  const auto outcome = body_->take(arrived);
  if (outcome == body_intake::state::gives_way) return give_way();
  if (outcome == body_intake::state::refused) return refuse(wire::api_error(body_->refusal()));
  in_.erase(0, in_.size() - arrived.size());
  if (outcome == body_intake::state::arriving)
    return arm_deadline(body_->time_left(std::chrono::steady_clock::now()));
  request_body body;
  if (!body_->finish(body)) return give_way();
  body_.reset();
  ticket_->note_request();
  ticket_->begin_work();
  // A drain only waits for requests that existed when it began.
  if (context_.requests.draining()) ticket_->end_work();
  deadline_.cancel();
  state_ = state::answering;
  answered_ = false;
  auto started = context_.requests.handle(request_, std::move(body), shared_from_this(), executor_);
  if (answered_) return; // already complete: the connection has continued
  exchange_ = std::move(started);
  watch_silence(first_sign_of_life);
}

template <class Stream>
void http_connection<Stream>::upgrade() {
  if (!in_.empty() || reading_ || !out_.empty() || request_.head.has_body())
    return refuse(
        {400, "invalid_request_error", "malformed_request",
         "an upgrade request stands alone: nothing before it unanswered, no body, nothing behind it", "", 0});
  state_ = state::closed; // as HTTP
  ticket_->note_request();
  deadline_.cancel();
  serve_websocket(context_, std::move(stream_), strand_, request_, std::move(ticket_));
}

/// Framing is lost or refused: answers with the reason, and closes.
template <class Stream>
void http_connection<Stream>::refuse(const wire::api_error& failure) {
  metrics().count_refusal(failure.status);
  framing_.close_after();
  send_bytes(framing_.whole(error_reply(failure), false));
  linger();
}

/// Called when the current request is answered.
template <class Stream>
void http_connection<Stream>::end_exchange() {
  answered_ = true;
  exchange_.reset();
  idle_.cancel();
  if (state_ == state::closed) return;
  if (!keeps_alive()) return linger();
  // This is not done immediately, because the caller may be the session or the parser.
  asio::post(strand_, [self = shared_from_this()] {
    if (self->state_ == state::answering) self->next_request();
  });
}

/// Input is still read and dropped, because closing with unread bytes would reset the connection. A client
/// that is still sending its body could then not read the answer.
template <class Stream>
void http_connection<Stream>::linger() {
  state_ = state::lingering;
  in_ = {};
  body_.reset();
  deadline_.cancel(); // from here on the write deadline limits the client's time
  if (out_.empty())
    end_writing();
  else
    read_more();
}

template <class Stream>
void http_connection<Stream>::end_writing() {
  output_ended_ = true;
  arm_deadline(linger_time);
  async_end_output(stream_, [self = shared_from_this()] { self->hang_up(); });
}

template <class Stream>
void http_connection<Stream>::hang_up() {
  if (state_ == state::closed) return;
  error_code ignored;
  socket_of(stream_).shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  arm_deadline(linger_time);
  read_more();
}

// Over TLS, close_notify tells the client that the end was not forged by an attacker.
template <class Stream>
void http_connection<Stream>::part() {
  is_secure<Stream> ? linger() : shut();
}

template <class Stream>
void http_connection<Stream>::shut() {
  if (state_ == state::closed) return;
  state_ = state::closed;
  deadline_.cancel();
  idle_.cancel();
  watch_.end();
  body_.reset();
  error_code ignored;
  socket_of(stream_).close(ignored);
  if (auto running = std::move(exchange_)) running->on_disconnect();
  ticket_.reset();
}

template <class Stream>
void http_connection<Stream>::read_more() {
  if (reading_ || state_ == state::closed || state_ == state::blocked) return;
  if (state_ == state::answering && in_.size() >= max_pipelined_bytes) return;
  reading_ = true;
  const bool of_socket = !is_secure<Stream> || output_ended_;
  auto done = [self = shared_from_this(), of_socket](const error_code& failure, std::size_t size) {
    self->reading_ = false;
    if (self->state_ == state::closed) return;
    // This side has ended the output, so the end of the stream was expected. The rest of a refused body may
    // still arrive.
    if (failure && !of_socket && self->output_ended_ && !has_ended(socket_of(self->stream_)))
      return self->read_more();
    // This includes the end of input: a client that has left needs no answer.
    if (failure) return self->shut();
    self->on_bytes(std::string_view(self->chunk_.data(), size));
  };
  if (of_socket)
    socket_of(stream_).async_read_some(asio::buffer(chunk_), std::move(done));
  else
    stream_.async_read_some(asio::buffer(chunk_), std::move(done));
}

template <class Stream>
void http_connection<Stream>::on_bytes(std::string_view bytes) {
  if (state_ == state::lingering) return read_more();
  ticket_->note_activity();
  const bool begins_head = state_ == state::head && in_.empty();
  // The bytes do not pass through `in_`, because a body may have megabytes.
  if (state_ == state::body && in_.empty() && body_->take(bytes) == body_intake::state::gives_way)
    return give_way();
  in_.append(bytes);
  if (begins_head) arm_deadline(options_.header_timeout);
  advance();
}

template <class Stream>
void http_connection<Stream>::write_next() {
  watch_.begin(weak_from_this(), socket_of(stream_).native_handle(), [](http_connection& self) {
    ++self.metrics().stalled_closes;
    self.shut();
  });
  stream_.async_write_some(asio::buffer(out_.next_bytes()),
                           [self = shared_from_this()](error_code failure, std::size_t count) {
                             self->on_written(failure, count);
                           });
}

template <class Stream>
void http_connection<Stream>::on_written(const error_code& failure, std::size_t count) {
  const bool relieved = out_.written(count);
  if (state_ == state::closed) return;
  if (failure) return shut();
  if (out_.has_next()) {
    write_next();
  } else {
    watch_.end();
    if (answered_) ticket_->end_work();
    if (state_ == state::lingering) end_writing();
  }
  if (relieved && exchange_) exchange_->on_writable();
  if (state_ == state::blocked && !out_.holds_back_requests()) next_request();
}

template <class Stream>
void http_connection<Stream>::on_deadline() {
  if (state_ == state::answering || state_ == state::blocked) return;
  // These bytes belong to the previous request, and pending output is sent first.
  if (state_ == state::lingering && !out_.empty()) return;
  const bool in_request = (state_ == state::head && !in_.empty()) || state_ == state::body;
  if (in_request)
    return refuse({408, "timeout_error", "request_timeout", "the request did not arrive in time", "", 0});
  state_ == state::head ? part() : shut();
}

/// Notifies the exchange if nothing was sent for some time.
template <class Stream>
void http_connection<Stream>::watch_silence(milliseconds time) {
  idle_.start(time, weak_from_this(), [sends = num_sends_](http_connection& self) {
    const auto running = self.exchange_;
    if (!running) return;
    if (self.num_sends_ == sends) running->on_idle();
    self.watch_silence(self.limits_.keep_alive);
  });
}

template class http_connection<tcp_socket>;
template class http_connection<tls_stream>;

namespace {

template <class Stream>
connection_set::place serve(const connection_context& context, Stream stream, io_strand strand) {
  auto served = std::make_shared<http_connection<Stream>>(context, std::move(stream), strand);
  auto place = context.connections.add(served);
  if (place.held) asio::dispatch(strand, [served, place] { served->start(place); });
  return place;
}

} // namespace

connection_set::place serve_http(const connection_context& context, tcp_socket socket, io_strand strand,
                                 const std::shared_ptr<tls_context>& tls) {
  if (!tls) return serve(context, std::move(socket), std::move(strand));
  return serve(context, tls_stream(std::move(socket), tls->native()), std::move(strand));
}

} // namespace paceline::server
