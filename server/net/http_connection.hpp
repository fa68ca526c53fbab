#pragma once

#include "server/http/error_reply.hpp"
#include "server/http/reply_framing.hpp"
#include "server/http/shared_text.hpp"
#include "server/net/body_intake.hpp"
#include "server/net/connection.hpp"
#include "server/net/outbound_queue.hpp"
#include "server/net/strand_timer.hpp"
#include "server/net/transport.hpp"
#include "server/net/write_watch.hpp"

#include <boost/asio/post.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::server {

/// One client connection that speaks HTTP. `drain`, `cut_short` and `abort` can be called on any thread: they
/// post their work to the connection's strand. All other functions must be called on the strand.
///
/// `Stream`: see transport.hpp. Only http_connection.cpp includes this header; it instantiates the template
/// for both streams.
template <class Stream>
class http_connection final : public connection,
                              public reply_channel,
                              public std::enable_shared_from_this<http_connection<Stream>> {
  using std::enable_shared_from_this<http_connection<Stream>>::shared_from_this;
  using std::enable_shared_from_this<http_connection<Stream>>::weak_from_this;

 public:
  http_connection(const connection_context& context, Stream stream, io_strand strand)
      : context_(context), options_(context.requests.edge().options), limits_(context.requests.edge().limits),
        stream_(std::move(stream)), strand_(std::move(strand)),
        executor_(context.runtime.make_executor(strand_)), deadline_(strand_), idle_(strand_),
        watch_(strand_, options_.send_timeout, limits_.min_bytes_per_second),
        out_(options_.send_buffer_bytes) {
    ++metrics().connections_active;
  }
  ~http_connection() override { --metrics().connections_active; }

  /// Serves the client; with TLS the handshake comes first. If `place.outcome` is `refused`, sends status 503
  /// and closes. `place.held` must not be null.
  void start(const connection_set::place& place);
  /// Instead of `start`, for a client that sent plain HTTP to a TLS port: sends status 400 with the message
  /// that the port speaks TLS, and closes. `ticket` belonged to the TLS connection that this object replaces.
  void start_refusal(std::shared_ptr<connection_set::ticket> ticket);

  // connection
  void drain() override {
    boost::asio::post(strand_, [self = shared_from_this()] { self->on_drain(); });
  }
  void cut_short() override {
    boost::asio::post(strand_, [self = shared_from_this()] {
      self->draining_ = true;
      if (const auto running = self->exchange_) running->on_shutdown();
    });
  }
  void abort() override {
    boost::asio::post(strand_, [self = shared_from_this()] { self->shut(); });
  }

  // reply_channel
  void reply(http_reply reply) override {
    send_bytes(framing_.whole(reply, keeps_alive()));
    if (reply.shared_body) send(std::make_unique<shared_text>(reply.shared_body));
    end_exchange();
  }
  void begin_stream(const header_list& headers) override {
    framing_.begin_pieces();
    send_bytes(write_stream_head(headers, framing_.chunked(), keeps_alive(), std::time(nullptr)));
  }
  void begin_pieces(const header_list& headers) override {
    framing_.begin_pieces();
    send_bytes(write_pieces_head(headers, framing_.chunked(), keeps_alive(), std::time(nullptr)));
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
    exchange_.reset(); // the exchange is the caller, so `shut` must not call its on_disconnect
    shut();
  }
  void keep(std::size_t bytes) override { out_.keep(bytes); }
  bool congested() const override { return out_.congested(); }

 private:
  using error_code = boost::system::error_code;
  using milliseconds = std::chrono::milliseconds;

  /// What the connection does now. This decides what happens to the next bytes from the client.
  enum class state {
    opening,   ///< the TLS handshake
    head,      ///< the head of a request is read, or its first byte is awaited
    body,      ///< the body of a request is read
    answering, ///< a request is processed; bytes of the next one are kept in `in_`
    blocked,   ///< no further request is read until the client has read enough of the replies
    lingering, ///< the connection ends: output is still sent, input is dropped
    closed     ///< the socket is closed, or another object has taken it over
  };

  edge_metrics& metrics() const { return context_.requests.edge().metrics; }
  bool keeps_alive() const { return framing_.keep_alive() && !draining_; }
  /// True if no request has been read on this connection yet, or if bytes from the client wait in the socket.
  /// In both cases a request may be on its way. If the connection were closed now, the client could not tell
  /// whether that request was carried out.
  bool is_about_to_ask() { return !ticket_->has_asked() || has_unread(stream_); }

  void begin(std::shared_ptr<connection_set::ticket> ticket);
  void on_open(const error_code& failure, bool admitted);
  void on_drain();
  void next_request();
  void advance();
  void take_head();
  void begin_body();
  void take_body();
  /// Refuses the request with status 503, because the budget for bodies has no room for its body.
  void give_way();
  void upgrade();
  void refuse(const wire::api_error& failure);
  void end_exchange();
  /// Drops further input, sends the waiting output and then calls `end_writing`.
  void linger();
  /// Tells a TLS client that no output follows (close_notify), and then calls `hang_up`.
  void end_writing();
  /// Ends the output of the socket, and waits up to one second for the client to do the same.
  void hang_up();
  /// Closes a connection that has no more output to send: with TLS by `linger`, otherwise by `shut`.
  void part();
  /// Closes the socket at once, and tells the exchange that the client has gone.
  void shut();
  void read_more();
  void on_bytes(std::string_view bytes);
  void send_bytes(std::string bytes) {
    if (state_ != state::closed && !bytes.empty()) push(std::move(bytes));
  }
  void push(auto bytes) {
    out_.push(std::move(bytes));
    ++num_sends_;
    if (!out_.writing()) write_next();
  }
  void write_next();
  void on_written(const error_code& failure, std::size_t count);
  void arm_deadline(milliseconds time) {
    deadline_.start(time, weak_from_this(), [](http_connection& self) { self.on_deadline(); });
  }
  void on_deadline();
  void watch_silence(milliseconds time);

  const connection_context context_;
  const config::server_options& options_;
  const edge_limits& limits_;
  Stream stream_;
  io_strand strand_;
  executor_ptr executor_;
  strand_timer deadline_; ///< limits the handshake, the wait for a request, its arrival, and lingering
  strand_timer idle_;     ///< while a request is answered: when to call exchange::on_idle if nothing was sent
  write_watch watch_;
  std::shared_ptr<connection_set::ticket> ticket_;

  state state_ = state::opening;
  std::array<char, 16U << 10U> chunk_;
  std::string in_;
  bool reading_ = false;
  /// No more output is sent. Input is read from the TCP socket, even if the connection uses TLS, and dropped.
  bool output_ended_ = false;
  outbound_queue out_;
  std::uint64_t num_sends_ = 0;

  admitted_request request_;
  std::optional<body_intake> body_;
  std::shared_ptr<exchange> exchange_;
  bool answered_ = true;
  reply_framing framing_;
  bool draining_ = false;
};

} // namespace paceline::server
