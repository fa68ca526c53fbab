#include "protocol/wire/api_error.hpp"
#include "server/http/error_reply.hpp"
#include "server/http/http_writer.hpp"
#include "server/net/connection.hpp"
#include "server/net/outbound_queue.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>

namespace paceline::server {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr std::size_t max_pipelined_bytes = 64U << 10U; ///< read ahead while a request is being answered
constexpr milliseconds first_sign_of_life{500};         ///< then every `keep_alive`
constexpr milliseconds linger_time{1000};               ///< for a refused body to arrive and be thrown away

/// One client connection. Everything happens on its strand.
class http_connection final : public connection,
                              public reply_channel,
                              public std::enable_shared_from_this<http_connection> {
 public:
  http_connection(const connection_context& context, tcp_socket socket, io_strand strand)
      : context_(context), options_(context.requests.edge().options), limits_(context.requests.edge().limits),
        socket_(std::move(socket)), strand_(std::move(strand)),
        executor_(context.runtime.make_executor(strand_)), deadline_(strand_), idle_(strand_),
        stall_(strand_), out_(options_.send_buffer_bytes) {}

  void start() {
    ticket_ = context_.connections.add(shared_from_this());
    auto& metrics = context_.requests.edge().metrics;
    ++metrics.connections_total;
    ++metrics.connections_active;
    // Accepted while the server stops: whoever closes the others may have missed this one.
    if (context_.requests.draining()) return shut();
    next_request();
  }
  ~http_connection() override { --context_.requests.edge().metrics.connections_active; }

  // connection
  void drain() override {
    asio::post(strand_, [self = shared_from_this()] {
      self->draining_ = true;
      if (self->state_ == state::head && self->in_.empty()) self->shut();
    });
  }
  void abort() override {
    asio::post(strand_, [self = shared_from_this()] { self->shut(); });
  }

  // reply_channel
  void reply(http_reply reply) override {
    send_bytes(write_reply(reply, keeps_alive(), head_only_));
    end_exchange();
  }
  void begin_stream(const header_list& headers) override {
    chunked_ = !http_1_0_;
    if (!chunked_) keep_alive_ = false;
    send_bytes(write_stream_head(headers, chunked_, keeps_alive()));
  }
  void begin_pieces(const header_list& headers) override {
    chunked_ = !http_1_0_;
    if (!chunked_) keep_alive_ = false;
    send_bytes(write_pieces_head(headers, chunked_, keeps_alive()));
  }
  void send(std::string bytes) override { send_bytes(chunked_ ? write_chunk(bytes) : std::move(bytes)); }
  void finish() override {
    if (chunked_) send_bytes(std::string(last_chunk));
    end_exchange();
  }
  bool congested() const override { return out_.congested(); }

 private:
  /// What the next bytes of the client are.
  enum class state { head, body, answering, lingering, closed };

  bool keeps_alive() const { return keep_alive_ && !draining_; }

  void next_request() {
    state_ = state::head;
    head_only_ = chunked_ = false;
    arm_deadline(in_.empty() ? options_.idle_timeout : options_.header_timeout);
    advance();
  }

  /// Does what the bytes at hand allow, then asks for more.
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
    keep_alive_ = complete.head.keep_alive;
    http_1_0_ = complete.head.http_1_0;
    head_only_ = complete.head.method == "HEAD";
    const bool expects_continue = complete.head.expects_continue && !http_1_0_;
    auto decision = context_.requests.admit(complete.head);
    if (auto* answered = std::get_if<answered_request>(&decision)) {
      if (!answered->close) return answer_now(std::move(answered->reply));
      keep_alive_ = false;
      send_bytes(write_reply(answered->reply, false, head_only_));
      return linger();
    }
    request_ = std::get<admitted_request>(std::move(decision));
    if (request_.where.target == endpoint::response_socket) return upgrade();
    body_bytes_ = request_.head.content_length.value_or(0);
    state_ = state::body;
    arm_deadline(body_time());
    if (expects_continue && in_.size() < body_bytes_) send_bytes("HTTP/1.1 100 Continue\r\n\r\n");
  }

  /// At least a KiB a second after a start, and never longer than a body may take.
  milliseconds body_time() const {
    return std::min(options_.body_timeout, options_.header_timeout + milliseconds(body_bytes_ * 1000 / 1024));
  }

  void answer_now(http_reply reply) {
    state_ = state::answering;
    deadline_.cancel();
    this->reply(std::move(reply));
  }

  void take_body() {
    if (in_.size() < body_bytes_) return;
    auto body = in_.substr(0, body_bytes_);
    in_.erase(0, body_bytes_);
    deadline_.cancel();
    state_ = state::answering;
    answered_ = false;
    auto started = context_.requests.handle(request_, std::move(body), shared_from_this(), executor_);
    if (answered_) return; // complete already: the connection has moved on
    exchange_ = std::move(started);
    watch_silence(first_sign_of_life);
  }

  void upgrade() {
    if (!in_.empty())
      return refuse({400, "invalid_request_error", "malformed_request",
                     "nothing may follow an upgrade request before its answer", "", 0});
    state_ = state::closed; // as HTTP
    deadline_.cancel();
    serve_websocket(context_, std::move(socket_), strand_, request_, std::move(ticket_));
  }

  /// Framing is lost or not wanted: say why, and close.
  void refuse(const wire::api_error& failure) {
    context_.requests.edge().metrics.count_refusal(failure.status);
    keep_alive_ = false;
    send_bytes(write_reply(error_reply(failure), false, head_only_));
    linger();
  }

  /// The current request is answered.
  void end_exchange() {
    answered_ = true;
    exchange_.reset();
    idle_.cancel();
    if (!keeps_alive()) return linger();
    // Not at once: we may be inside the session's or the parser's call.
    asio::post(strand_, [self = shared_from_this()] {
      if (self->state_ == state::answering) self->next_request();
    });
  }

  /// Sends what waits, then closes; a client that is still sending its body gets a moment to read the answer,
  /// since closing over unread bytes would reset the connection under it.
  void linger() {
    state_ = state::lingering;
    in_.clear();
    arm_deadline(linger_time + options_.send_timeout);
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
    stall_.cancel();
    error_code ignored;
    socket_.close(ignored);
    if (auto running = std::move(exchange_)) running->on_disconnect();
    ticket_.reset();
  }

  void read_more() {
    if (reading_ || state_ == state::closed) return;
    if (state_ == state::answering && in_.size() >= max_pipelined_bytes) return;
    reading_ = true;
    socket_.async_read_some(
        asio::buffer(chunk_), [self = shared_from_this()](error_code failure, std::size_t size) {
          self->reading_ = false;
          if (self->state_ == state::closed) return;
          if (failure) return self->shut(); // also the end of input: a client that has gone needs no answer
          self->on_bytes(std::string_view(self->chunk_.data(), size));
        });
  }

  void on_bytes(std::string_view bytes) {
    if (state_ == state::lingering) return read_more();
    const bool begins_head = state_ == state::head && in_.empty();
    in_.append(bytes);
    if (begins_head) arm_deadline(options_.header_timeout);
    advance();
  }

  void send_bytes(std::string bytes) {
    if (state_ == state::closed || bytes.empty()) return;
    out_.push(std::move(bytes));
    ++num_sends_;
    if (!out_.writing()) write_next();
  }

  void write_next() {
    arm_stall();
    asio::async_write(socket_, asio::buffer(out_.next_bytes()),
                      [self = shared_from_this()](error_code failure, std::size_t) {
                        self->stall_.cancel();
                        const bool relieved = self->out_.written();
                        if (self->state_ == state::closed) return;
                        if (failure) return self->shut();
                        if (self->out_.has_next())
                          self->write_next();
                        else if (self->state_ == state::lingering)
                          self->end_writing();
                        if (relieved && self->exchange_) self->exchange_->on_writable();
                      });
  }

  void arm_stall() {
    stall_.expires_after(options_.send_timeout);
    stall_.async_wait([weak = weak_from_this()](error_code cancelled) {
      const auto self = weak.lock();
      if (cancelled || !self || !self->out_.writing()) return;
      ++self->context_.requests.edge().metrics.stalled_closes;
      self->shut();
    });
  }

  void arm_deadline(milliseconds time) {
    deadline_.expires_after(time);
    deadline_.async_wait([weak = weak_from_this()](error_code cancelled) {
      const auto self = weak.lock();
      if (cancelled || !self || self->deadline_.expiry() > std::chrono::steady_clock::now()) return;
      self->on_deadline();
    });
  }

  void on_deadline() {
    if (state_ == state::answering) return;
    const bool in_request = (state_ == state::head && !in_.empty()) || state_ == state::body;
    if (in_request)
      return refuse({408, "timeout_error", "request_timeout", "the request did not arrive in time", "", 0});
    shut();
  }

  /// Tells the exchange when nothing was sent for a while.
  void watch_silence(milliseconds time) {
    idle_.expires_after(time);
    idle_.async_wait([weak = weak_from_this(), sends = num_sends_](error_code cancelled) {
      const auto self = weak.lock();
      if (cancelled || !self || !self->exchange_) return;
      const auto running = self->exchange_;
      if (self->num_sends_ == sends) running->on_idle();
      self->watch_silence(self->limits_.keep_alive);
    });
  }

  const connection_context context_;
  const config::server_options& options_;
  const edge_limits& limits_;
  tcp_socket socket_;
  io_strand strand_;
  executor_ptr executor_;
  asio::steady_timer deadline_;
  asio::steady_timer idle_;
  asio::steady_timer stall_;
  std::shared_ptr<connection_set::ticket> ticket_;

  state state_ = state::head;
  std::array<char, 16U << 10U> chunk_{};
  std::string in_;
  bool reading_ = false;
  outbound_queue out_;
  std::uint64_t num_sends_ = 0;

  admitted_request request_;
  std::uint64_t body_bytes_ = 0;
  std::shared_ptr<exchange> exchange_;
  bool answered_ = false;
  bool keep_alive_ = true;
  bool http_1_0_ = false;
  bool head_only_ = false;
  bool chunked_ = false;
  bool draining_ = false;
};

} // namespace

void serve_http(const connection_context& context, tcp_socket socket, io_strand strand) {
  auto served = std::make_shared<http_connection>(context, std::move(socket), strand);
  asio::dispatch(strand, [served] { served->start(); });
}

} // namespace paceline::server
