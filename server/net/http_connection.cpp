#include "protocol/wire/api_error.hpp"
#include "server/http/error_reply.hpp"
#include "server/http/reply_framing.hpp"
#include "server/http/shared_text.hpp"
#include "server/net/body_intake.hpp"
#include "server/net/connection.hpp"
#include "server/net/outbound_queue.hpp"
#include "server/net/strand_timer.hpp"
#include "server/net/write_watch.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <array>
#include <optional>

namespace paceline::server {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr std::size_t max_pipelined_bytes = 16U << 10U; ///< read ahead while a request is processed
constexpr milliseconds first_sign_of_life{500};         ///< then every `keep_alive`
constexpr milliseconds linger_time{1000};               ///< time to receive and discard a refused body

/// One client connection. Everything happens on its strand.
class http_connection final : public connection,
                              public reply_channel,
                              public std::enable_shared_from_this<http_connection> {
 public:
  http_connection(const connection_context& context, tcp_socket socket, io_strand strand)
      : context_(context), options_(context.requests.edge().options), limits_(context.requests.edge().limits),
        socket_(std::move(socket)), strand_(std::move(strand)),
        executor_(context.runtime.make_executor(strand_)), deadline_(strand_), idle_(strand_),
        watch_(strand_, options_.send_timeout, limits_.min_bytes_per_second),
        out_(options_.send_buffer_bytes) {
    auto& metrics = context_.requests.edge().metrics;
    ++metrics.connections_total;
    ++metrics.connections_active;
  }

  void start(const connection_set::place& place) {
    ticket_ = place.held;
    out_.count_in(claim_output(context_, strand_, weak_from_this()));
    draining_ = context_.requests.draining(); // this connection may have missed the announcement
    if (place.outcome == connection_set::admission::admitted) return next_request();
    refuse(
        {503, "service_unavailable_error", "too_many_connections", "too many connections are open", "", 1});
  }
  ~http_connection() override { --context_.requests.edge().metrics.connections_active; }

  // connection
  void drain() override {
    asio::post(strand_, [self = shared_from_this()] {
      self->draining_ = true;
      const bool rests = self->state_ == state::head && self->in_.empty();
      if (rests && self->is_about_to_ask()) return;
      if (rests && self->out_.empty()) return self->shut();
      if (rests || self->state_ == state::blocked) self->linger();
    });
  }
  void cut_short() override {
    asio::post(strand_, [self = shared_from_this()] {
      self->draining_ = true;
      if (const auto running = self->exchange_) running->on_shutdown();
    });
  }
  void abort() override {
    asio::post(strand_, [self = shared_from_this()] { self->shut(); });
  }

  // reply_channel
  void reply(http_reply reply) override {
    send_bytes(framing_.whole(reply, keeps_alive()));
    if (reply.shared_body) send(std::make_unique<shared_text>(reply.shared_body));
    end_exchange();
  }
  void begin_stream(const header_list& headers) override {
    framing_.begin_pieces();
    send_bytes(write_stream_head(headers, framing_.chunked(), keeps_alive()));
  }
  void begin_pieces(const header_list& headers) override {
    framing_.begin_pieces();
    send_bytes(write_pieces_head(headers, framing_.chunked(), keeps_alive()));
  }
  void send(std::string bytes) override { send_bytes(framing_.piece(std::move(bytes))); }
  void send(std::unique_ptr<wire::text_source> bytes) override {
    auto piece = framing_.piece(std::move(bytes));
    if (state_ != state::closed && piece) push(std::move(piece));
  }
  void finish() override {
    send_bytes(framing_.end());
    end_exchange();
  }
  void abandon() override {
    exchange_.reset(); // it may call this object
    shut();
  }
  void keep(std::size_t bytes) override { out_.keep(bytes); }
  bool congested() const override { return out_.congested(); }

 private:
  /// What the next bytes of the client belong to.
  enum class state {
    head,
    body,
    answering,
    blocked, ///< no request is read until the client has read its replies
    lingering,
    closed
  };

  bool keeps_alive() const { return framing_.keep_alive() && !draining_; }
  /// Closed now, a client that has just connected, or whose request lies unread, could not tell whether its
  /// request was carried out.
  bool is_about_to_ask() const {
    boost::system::error_code failed;
    return !ticket_->has_asked() || (socket_.available(failed) > 0 && !failed);
  }

  void next_request() {
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
  void advance() {
    if (state_ == state::head) take_head();
    if (state_ == state::body) take_body();
    read_more();
  }

  void take_head() {
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

  void begin_body() {
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

  void give_way() {
    ++context_.requests.edge().metrics.bodies_given_up;
    refuse({503, "service_unavailable_error", "overloaded", "too many large requests arrive at once", "", 1});
  }

  void take_body() {
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

  void upgrade() {
    if (!in_.empty() || reading_ || !out_.empty() || request_.head.has_body())
      return refuse(
          {400, "invalid_request_error", "malformed_request",
           "an upgrade request stands alone: nothing before it unanswered, no body, nothing behind it", "",
           0});
    state_ = state::closed; // as HTTP
    ticket_->note_request();
    deadline_.cancel();
    serve_websocket(context_, std::move(socket_), strand_, request_, std::move(ticket_));
  }

  /// Framing is lost or refused: answers with the reason, and closes.
  void refuse(const wire::api_error& failure) {
    context_.requests.edge().metrics.count_refusal(failure.status);
    framing_.close_after();
    send_bytes(framing_.whole(error_reply(failure), false));
    linger();
  }

  /// The current request is answered.
  void end_exchange() {
    answered_ = true;
    exchange_.reset();
    idle_.cancel();
    if (state_ == state::closed) return;
    if (!keeps_alive()) return linger();
    // Not immediately: the caller may be the session or the parser.
    asio::post(strand_, [self = shared_from_this()] {
      if (self->state_ == state::answering) self->next_request();
    });
  }

  /// Sends pending bytes, then closes. A client that is still sending its body gets a moment to read the
  /// answer, because closing with unread bytes would reset the connection.
  void linger() {
    state_ = state::lingering;
    in_ = {};
    body_.reset();
    deadline_.cancel(); // the write deadline watches the client
    if (out_.empty())
      end_writing();
    else
      read_more();
  }

  void end_writing() {
    error_code ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    arm_deadline(linger_time);
    read_more();
  }

  void shut() {
    if (state_ == state::closed) return;
    state_ = state::closed;
    deadline_.cancel();
    idle_.cancel();
    watch_.end();
    body_.reset();
    error_code ignored;
    socket_.close(ignored);
    if (auto running = std::move(exchange_)) running->on_disconnect();
    ticket_.reset();
  }

  void read_more() {
    if (reading_ || state_ == state::closed || state_ == state::blocked) return;
    if (state_ == state::answering && in_.size() >= max_pipelined_bytes) return;
    reading_ = true;
    socket_.async_read_some(
        asio::buffer(chunk_), [self = shared_from_this()](error_code failure, std::size_t size) {
          self->reading_ = false;
          if (self->state_ == state::closed) return;
          if (failure) return self->shut(); // also the end of input: a client that has left needs no answer
          self->on_bytes(std::string_view(self->chunk_.data(), size));
        });
  }

  void on_bytes(std::string_view bytes) {
    if (state_ == state::lingering) return read_more();
    ticket_->note_activity();
    const bool begins_head = state_ == state::head && in_.empty();
    // Not through `in_`, because a body may have megabytes.
    if (state_ == state::body && in_.empty() && body_->take(bytes) == body_intake::state::gives_way)
      return give_way();
    in_.append(bytes);
    if (begins_head) arm_deadline(options_.header_timeout);
    advance();
  }

  void send_bytes(std::string bytes) {
    if (state_ != state::closed && !bytes.empty()) push(std::move(bytes));
  }
  void push(auto bytes) {
    out_.push(std::move(bytes));
    ++num_sends_;
    if (!out_.writing()) write_next();
  }

  void write_next() {
    watch_.begin(weak_from_this(), socket_.native_handle(), [](http_connection& self) {
      ++self.context_.requests.edge().metrics.stalled_closes;
      self.shut();
    });
    socket_.async_write_some(asio::buffer(out_.next_bytes()),
                             [self = shared_from_this()](error_code failure, std::size_t count) {
                               self->on_written(failure, count);
                             });
  }

  void on_written(error_code failure, std::size_t count) {
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

  void arm_deadline(milliseconds time) {
    deadline_.start(time, weak_from_this(), [](http_connection& self) { self.on_deadline(); });
  }

  void on_deadline() {
    if (state_ == state::answering || state_ == state::blocked) return;
    // Of the previous request; pending bytes are sent first.
    if (state_ == state::lingering && !out_.empty()) return;
    const bool in_request = (state_ == state::head && !in_.empty()) || state_ == state::body;
    if (in_request)
      return refuse({408, "timeout_error", "request_timeout", "the request did not arrive in time", "", 0});
    shut();
  }

  /// Notifies the exchange if nothing was sent for some time.
  void watch_silence(milliseconds time) {
    idle_.start(time, weak_from_this(), [sends = num_sends_](http_connection& self) {
      const auto running = self.exchange_;
      if (!running) return;
      if (self.num_sends_ == sends) running->on_idle();
      self.watch_silence(self.limits_.keep_alive);
    });
  }

  const connection_context context_;
  const config::server_options& options_;
  const edge_limits& limits_;
  tcp_socket socket_;
  io_strand strand_;
  executor_ptr executor_;
  strand_timer deadline_;
  strand_timer idle_;
  write_watch watch_;
  std::shared_ptr<connection_set::ticket> ticket_;

  state state_ = state::head;
  std::array<char, 16U << 10U> chunk_;
  std::string in_;
  bool reading_ = false;
  outbound_queue out_;
  std::uint64_t num_sends_ = 0;

  admitted_request request_;
  std::optional<body_intake> body_;
  std::shared_ptr<exchange> exchange_;
  bool answered_ = true;
  reply_framing framing_;
  bool draining_ = false;
};

} // namespace

connection_set::place serve_http(const connection_context& context, tcp_socket socket, io_strand strand) {
  auto served = std::make_shared<http_connection>(context, std::move(socket), strand);
  auto place = context.connections.add(served);
  if (place.held) asio::dispatch(strand, [served, place] { served->start(place); });
  return place;
}

} // namespace paceline::server
