// The only file that knows Beast: it dominates build time.
#include "server/http/http_writer.hpp"
#include "server/net/connection.hpp"
#include "server/net/outbound_queue.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/websocket/stream.hpp>

namespace paceline::server {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = boost::beast::websocket;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr milliseconds handshake_time{10'000};
constexpr milliseconds close_time{3'000};

/// One WebSocket client. Everything happens on its strand. One message is read at a time, one is written at a
/// time.
class websocket_connection final : public connection,
                                   public frame_channel,
                                   public std::enable_shared_from_this<websocket_connection> {
 public:
  websocket_connection(const connection_context& context, tcp_socket socket, io_strand strand,
                       std::shared_ptr<connection_set::ticket> ticket)
      : context_(context), options_(context.requests.edge().options), limits_(context.requests.edge().limits),
        stream_(std::move(socket)), strand_(std::move(strand)),
        executor_(context.runtime.make_executor(strand_)), stall_(strand_), deadline_(strand_),
        lifetime_(strand_), in_(options_.max_body_bytes + 1), out_(options_.send_buffer_bytes),
        ticket_(std::move(ticket)) {
    auto& metrics = context_.requests.edge().metrics;
    ++metrics.websockets_total;
    ++metrics.websockets_active;
  }
  ~websocket_connection() override { --context_.requests.edge().metrics.websockets_active; }

  void start(const admitted_request& request) {
    context_.connections.replace(*ticket_, shared_from_this());
    // A silent client is pinged after half the idle time and closed after all of it.
    stream_.set_option(websocket::stream_base::timeout{handshake_time, options_.idle_timeout, true});
    stream_.set_option(
        websocket::stream_base::decorator([id = request.who.request_id](websocket::response_type& reply) {
          reply.set("x-request-id", header_safe(id, 128));
        }));
    stream_.read_message_max(options_.max_body_bytes);
    stream_.text(true);
    stream_.auto_fragment(false);
    for (const auto& [name, value] : request.head.headers) handshake_.insert(name, value);
    handshake_.method(beast::http::verb::get);
    handshake_.target("/v1/responses");
    handshake_.version(11);
    stream_.async_accept(handshake_, [self = shared_from_this(), who = request.who](error_code failure) {
      if (failure) return self->shut(); // Beast has answered a bad handshake with 400 itself
      self->open(who);
    });
  }

  // connection
  void drain() override {
    asio::post(strand_, [self = shared_from_this()] {
      self->draining_ = true;
      if (self->session_) self->session_->drain();
    });
  }
  void abort() override {
    asio::post(strand_, [self = shared_from_this()] { self->shut(); });
  }

  // frame_channel
  void send(std::string text) override {
    if (shut_ || closing_) return;
    out_.push(std::move(text));
    if (!out_.writing()) write_next();
  }
  void read_next() override {
    if (shut_ || reading_) return;
    reading_ = true;
    stream_.async_read(in_, [self = shared_from_this()](error_code failure, std::size_t) {
      self->reading_ = false;
      if (self->shut_) return;
      if (failure) return self->shut(); // Beast has sent 1002, 1007 or 1009 where it is due
      self->on_message();
    });
  }
  bool congested() const override { return out_.congested(); }
  void close(close_code code, std::string_view reason) override {
    if (shut_ || closing_) return;
    closing_ = websocket::close_reason(static_cast<websocket::close_code>(code),
                                       beast::string_view(reason.data(), reason.size()));
    arm_deadline();
    if (out_.empty()) send_close();
  }

 private:
  void open(const caller& who) {
    if (shut_) return;
    session_ = context_.requests.open_websocket(who, shared_from_this(), executor_);
    lifetime_.expires_after(limits_.websocket_lifetime);
    lifetime_.async_wait([weak = weak_from_this()](error_code cancelled) {
      const auto self = weak.lock();
      if (!cancelled && self && self->session_) self->session_->expire();
    });
    read_next();
    if (draining_ || context_.requests.draining()) session_->drain();
  }

  void on_message() {
    if (!session_ || closing_) { // only the closing handshake is of interest
      in_.consume(in_.size());
      return read_next();
    }
    if (!stream_.got_text()) return session_->on_binary();
    const auto data = in_.cdata();
    std::string text(static_cast<const char*>(data.data()), data.size());
    in_.consume(in_.size());
    session_->on_text(std::move(text));
  }

  void write_next() {
    stall_.expires_after(options_.send_timeout);
    stall_.async_wait([weak = weak_from_this()](error_code cancelled) {
      const auto self = weak.lock();
      if (cancelled || !self || !self->out_.writing()) return;
      ++self->context_.requests.edge().metrics.stalled_closes;
      self->shut();
    });
    stream_.async_write(asio::buffer(out_.next_message()),
                        [self = shared_from_this()](error_code failure, std::size_t) {
                          self->stall_.cancel();
                          const bool relieved = self->out_.written();
                          if (self->shut_) return;
                          if (failure) return self->shut();
                          if (self->out_.has_next())
                            self->write_next();
                          else if (self->closing_)
                            self->send_close();
                          if (relieved && self->session_) self->session_->on_writable();
                        });
  }

  void send_close() {
    stream_.async_close(*closing_, [self = shared_from_this()](error_code) { self->shut(); });
  }

  void arm_deadline() {
    deadline_.expires_after(close_time);
    deadline_.async_wait([weak = weak_from_this()](error_code cancelled) {
      if (const auto self = weak.lock(); !cancelled && self) self->shut();
    });
  }

  void shut() {
    if (shut_) return;
    shut_ = true;
    stall_.cancel();
    deadline_.cancel();
    lifetime_.cancel();
    error_code ignored;
    stream_.next_layer().close(ignored);
    if (auto session = std::move(session_)) session->on_disconnect();
    ticket_.reset();
  }

  const connection_context context_;
  const config::server_options& options_;
  const edge_limits& limits_;
  websocket::stream<tcp_socket, false> stream_; ///< false: permessage-deflate is not even compiled in
  io_strand strand_;
  executor_ptr executor_;
  asio::steady_timer stall_;
  asio::steady_timer deadline_;
  asio::steady_timer lifetime_;
  beast::flat_buffer in_;
  outbound_queue out_;
  std::shared_ptr<connection_set::ticket> ticket_;
  beast::http::request<beast::http::empty_body> handshake_;
  std::shared_ptr<websocket_session> session_;
  std::optional<websocket::close_reason> closing_;
  bool reading_ = false;
  bool draining_ = false;
  bool shut_ = false;
};

} // namespace

void serve_websocket(const connection_context& context, tcp_socket socket, io_strand strand,
                     const admitted_request& request, std::shared_ptr<connection_set::ticket> ticket) {
  std::make_shared<websocket_connection>(context, std::move(socket), std::move(strand), std::move(ticket))
      ->start(request);
}

} // namespace paceline::server
