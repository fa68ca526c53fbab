// One of the two files here that include Beast, which dominates build time.
#include "server/http/http_writer.hpp"
#include "server/net/connection.hpp"
#include "server/net/inbound_body.hpp"
#include "server/net/outbound_queue.hpp"
#include "server/net/strand_timer.hpp"
#include "server/net/transport.hpp"
#include "server/net/write_watch.hpp"

#include <boost/asio/post.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <boost/beast/websocket/stream.hpp>

#include <array>
#include <optional>

namespace paceline::server {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = boost::beast::websocket;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr milliseconds handshake_time{10'000};
constexpr milliseconds close_time{3'000};

/// One WebSocket client. All of it runs on its strand. One message is read and one is written at a time.
/// `Stream`: see transport.hpp.
template <class Stream>
class websocket_connection final : public connection,
                                   public frame_channel,
                                   public std::enable_shared_from_this<websocket_connection<Stream>> {
  using std::enable_shared_from_this<websocket_connection<Stream>>::shared_from_this;
  using std::enable_shared_from_this<websocket_connection<Stream>>::weak_from_this;

 public:
  websocket_connection(const connection_context& context, Stream stream, io_strand strand,
                       std::shared_ptr<connection_set::ticket> ticket)
      : context_(context), options_(context.requests.edge().options), limits_(context.requests.edge().limits),
        stream_(std::move(stream)), strand_(std::move(strand)),
        executor_(context.runtime.make_executor(strand_)),
        watch_(strand_, options_.send_timeout, limits_.min_bytes_per_second), deadline_(strand_),
        lifetime_(strand_), out_(options_.send_buffer_bytes), ticket_(std::move(ticket)) {
    auto& metrics = context_.requests.edge().metrics;
    ++metrics.websockets_total;
    ++metrics.websockets_active;
  }
  ~websocket_connection() override { --context_.requests.edge().metrics.websockets_active; }

  void start(const admitted_request& request) {
    context_.connections.replace(*ticket_, shared_from_this());
    out_.count_in(claim_output(context_, strand_, weak_from_this()));
    out_.belong_to(request.who.tenant);
    set_reading(false);
    const auto offered = read_protocols(request.head.header("sec-websocket-protocol"));
    stream_.set_option(websocket::stream_base::decorator(
        [id = request.who.request_id,
         protocol = std::string(offered.answer)](websocket::response_type& reply) {
          reply.set("x-request-id", header_safe(id, 128));
          if (!protocol.empty()) reply.set(beast::http::field::sec_websocket_protocol, protocol);
        }));
    stream_.read_message_max(options_.max_body_bytes);
    stream_.text(true);
    stream_.auto_fragment(false);
    for (const auto& [name, value] : request.head.headers) handshake_.insert(name, value);
    handshake_.method(beast::http::verb::get);
    handshake_.target("/v1/responses");
    handshake_.version(11);
    stream_.async_accept(handshake_, [self = shared_from_this(), who = request.who](error_code failure) {
      if (failure) return self->shut(); // Beast has answered an invalid handshake with 400 itself
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
  void cut_short() override {
    asio::post(strand_, [self = shared_from_this()] {
      self->draining_ = true;
      if (self->session_) self->session_->shut_down();
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
  void send(std::unique_ptr<wire::text_source> text) override {
    if (shut_ || closing_) return;
    out_.push(std::move(text));
    if (!out_.writing()) write_next();
  }
  void read_next() override {
    wants_message_ = true;
    read_more();
  }
  bool congested() const override { return out_.congested(); }
  void send_binary(bool binary) override { stream_.binary(binary); }
  void close(close_code code, std::string_view reason) override {
    if (shut_ || closing_) return;
    closing_ = websocket::close_reason(static_cast<websocket::close_code>(code),
                                       beast::string_view(reason.data(), reason.size()));
    if (out_.empty()) send_close();
  }

 private:
  void open(const caller& who) {
    if (shut_) return;
    tenant_ = who.tenant;
    session_ = context_.requests.open_websocket(who, shared_from_this(), executor_);
    ticket_->begin_work(); // until the closing handshake is complete
    // A drain waits only for requests that existed when it began.
    if (context_.requests.draining()) ticket_->end_work();
    lifetime_.start(limits_.websocket_lifetime, weak_from_this(), [](websocket_connection& self) {
      if (self.session_) self.session_->expire();
    });
    read_next();
    if (draining_ || context_.requests.draining()) session_->drain();
  }

  /// True if the client must read output before its next message is read. This never applies in the middle of
  /// a message, because its sender may read nothing before the message is complete. While responses run, only
  /// a congested queue counts: their events always wait, and a cancel must still be read.
  bool holds_back() const {
    if (message_ || closing_) return false;
    return session_ && session_->busy() ? out_.congested() : out_.holds_back_requests();
  }

  /// Sets Beast's time limits. During a read, a silent client is pinged after half the idle time and closed
  /// after the whole idle time. Beast sees the answer only while it reads, so at other times there is no such
  /// limit; `watch_` limits how long the client may leave output unread.
  void set_reading(bool reading) {
    reading_ = reading;
    auto idle_time = websocket::stream_base::none();
    if (reading) idle_time = options_.idle_timeout;
    stream_.set_option(websocket::stream_base::timeout{handshake_time, idle_time, true});
  }

  void read_more() {
    if (shut_ || reading_ || !wants_message_ || holds_back()) return; // `on_written` calls this again
    set_reading(true); // Beast begins to count the idle time when a read begins
    stream_.async_read_some(asio::buffer(chunk_),
                            [self = shared_from_this()](error_code failure, std::size_t count) {
                              self->set_reading(false);
                              if (self->shut_) return;
                              if (failure) return self->shut(); // Beast has sent 1002, 1007 or 1009
                              self->on_bytes(std::string_view(self->chunk_.data(), count));
                            });
  }

  void on_bytes(std::string_view bytes) {
    if (!session_ || closing_) return read_more(); // only the closing handshake matters now
    if (!message_) begin_message();
    if (!message_->append(bytes)) return give_way();
    if (!stream_.is_message_done()) return read_more();
    wants_message_ = false;
    request_body whole;
    const bool taken = message_->take(whole);
    message_.reset();
    if (!taken) return give_way();
    if (!stream_.got_text()) return session_->on_binary(std::move(whole));
    session_->on_text(std::move(whole));
  }

  void begin_message() {
    message_.emplace(context_.bodies, tenant_, options_.max_body_bytes,
                     [weak = weak_from_this(), strand = strand_] {
                       asio::post(strand, [weak] {
                         const auto self = weak.lock();
                         if (self && self->message_ && self->message_->has_to_give_way()) self->give_way();
                       });
                     });
  }

  /// Called when the memory for arriving messages is used up and this message is the slowest.
  void give_way() {
    ++context_.requests.edge().metrics.bodies_given_up;
    message_.reset();
    wants_message_ = true; // reading continues only for the closing handshake
    if (session_) session_->on_overload();
    read_more();
  }

  void write_next() {
    watch_.begin(weak_from_this(), socket().native_handle(), [](websocket_connection& self) {
      ++self.context_.requests.edge().metrics.stalled_closes;
      self.shut();
    });
    const auto piece = out_.next_piece();
    stream_.async_write_some(piece.ends_message, asio::buffer(piece.bytes),
                             [self = shared_from_this()](error_code failure, std::size_t count) {
                               self->on_written(failure, count);
                             });
  }

  void on_written(error_code failure, std::size_t count) {
    const bool relieved = out_.written(count);
    if (shut_) return;
    if (failure) return shut();
    if (out_.has_next()) {
      write_next();
    } else {
      watch_.end();
      if (closing_) send_close();
    }
    if (relieved && session_) session_->on_writable();
    read_more();
  }

  void send_close() {
    arm_deadline();
    stream_.async_close(*closing_, [self = shared_from_this()](error_code) { self->shut(); });
  }

  void arm_deadline() {
    deadline_.start(close_time, weak_from_this(), [](websocket_connection& self) { self.shut(); });
  }

  void shut() {
    if (shut_) return;
    shut_ = true;
    watch_.end();
    message_.reset();
    deadline_.cancel();
    lifetime_.cancel();
    error_code ignored;
    socket().close(ignored);
    if (auto session = std::move(session_)) session->on_disconnect();
    ticket_.reset();
  }

  tcp_socket& socket() noexcept { return socket_of(stream_.next_layer()); }

  const connection_context context_;
  const config::server_options& options_;
  const edge_limits& limits_;
  websocket::stream<Stream, false> stream_; ///< false: permessage-deflate is not compiled in
  io_strand strand_;
  executor_ptr executor_;
  write_watch watch_;
  strand_timer deadline_;
  strand_timer lifetime_;
  std::array<char, 16U << 10U> chunk_;
  std::string tenant_;
  std::optional<inbound_body> message_; ///< the one that is arriving
  outbound_queue out_;
  std::shared_ptr<connection_set::ticket> ticket_;
  beast::http::request<beast::http::empty_body> handshake_;
  std::shared_ptr<frame_session> session_;
  std::optional<websocket::close_reason> closing_;
  bool wants_message_ = false;
  bool reading_ = false;
  bool draining_ = false;
  bool shut_ = false;
};

} // namespace

template <class Stream>
void serve_websocket(const connection_context& context, Stream stream, io_strand strand,
                     const admitted_request& request, std::shared_ptr<connection_set::ticket> ticket) {
  std::make_shared<websocket_connection<Stream>>(context, std::move(stream), std::move(strand),
                                                 std::move(ticket))
      ->start(request);
}

template void serve_websocket(const connection_context&, tcp_socket, io_strand, const admitted_request&,
                              std::shared_ptr<connection_set::ticket>);
template void serve_websocket(const connection_context&, tls_stream, io_strand, const admitted_request&,
                              std::shared_ptr<connection_set::ticket>);

} // namespace paceline::server
