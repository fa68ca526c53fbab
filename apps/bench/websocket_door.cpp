#include "apps/bench/door.hpp"
#include "apps/bench/replies.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/stream.hpp>

namespace paceline::apps::bench {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::steady_clock;

namespace {

error broken(const error_code& failure) {
  return {errc::internal, "the WebSocket to the daemon broke: " + failure.message()};
}

class websocket_client final : public connection {
 public:
  ~websocket_client() override {
    error_code ignored; // the daemon has nothing more to send
    if (stream_.is_open()) stream_.close(beast::websocket::close_code::normal, ignored);
  }

  expected<void> open(std::uint16_t port) {
    error_code failed;
    auto& socket = stream_.next_layer();
    socket.connect({asio::ip::address_v4::loopback(), port}, failed);
    if (failed) return broken(failed);
    socket.set_option(tcp::no_delay(true), failed);
    stream_.handshake("127.0.0.1:" + std::to_string(port), "/v1/responses", failed);
    if (failed) return broken(failed);
    stream_.read_message_max(0);
    return {};
  }

  expected<delivery> ask(const errand& request) override {
    const auto frame = response_frame(request);
    if (!frame) return frame.error();
    error_code failed;
    const auto sent = steady_clock::now();
    stream_.write(asio::buffer(*frame), failed);
    if (failed) return broken(failed);
    std::vector<stamped_event> events;
    do {
      beast::flat_buffer message;
      stream_.read(message, failed);
      const auto now = steady_clock::now();
      if (failed) return broken(failed);
      events.push_back({now, beast::buffers_to_string(message.data())});
    } while (!ends_response(events.back().data));
    auto read = read_response_stream(request, events);
    if (read) read->sent = sent, read->ended = events.back().time;
    return read;
  }

 private:
  asio::io_context context_;
  beast::websocket::stream<tcp::socket> stream_{context_};
};

class websocket_door final : public door {
 public:
  explicit websocket_door(std::uint16_t port) : port_(port) {}
  expected<std::unique_ptr<connection>> connect() override {
    auto client = std::make_unique<websocket_client>();
    if (auto opened = client->open(port_); !opened) return std::move(opened).error();
    return std::unique_ptr<connection>(std::move(client));
  }

 private:
  std::uint16_t port_;
};

} // namespace

std::unique_ptr<door> make_websocket_door(std::uint16_t port) {
  return std::make_unique<websocket_door>(port);
}

} // namespace paceline::apps::bench
