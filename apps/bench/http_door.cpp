#include "apps/bench/door.hpp"
#include "apps/bench/replies.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

namespace paceline::apps::bench {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::steady_clock;

namespace {

error broken(const error_code& failure) {
  return {errc::internal, "the connection to the daemon broke: " + failure.message()};
}

class http_client final : public connection {
 public:
  explicit http_client(bool streamed) : streamed_(streamed) {}

  expected<void> open(std::uint16_t port) {
    error_code failed;
    socket_.connect({asio::ip::address_v4::loopback(), port}, failed);
    if (failed) return broken(failed);
    socket_.set_option(tcp::no_delay(true), failed);
    host_ = "127.0.0.1:" + std::to_string(port);
    return {};
  }

  expected<delivery> ask(const errand& request) override {
    http::request<http::string_body> message(http::verb::post, std::string(completion_path(request)), 11);
    message.set(http::field::host, host_);
    message.set(http::field::content_type, "application/json");
    message.body() = completion_body(request, streamed_);
    message.prepare_payload();
    error_code failed;
    const auto sent = steady_clock::now();
    http::write(socket_, message, failed);
    if (failed) return broken(failed);
    auto read = streamed_ ? read_stream(request) : read_whole(request);
    if (read) read->sent = sent;
    return read;
  }

 private:
  expected<delivery> read_whole(const errand& request) {
    http::response_parser<http::string_body> parser;
    parser.body_limit(boost::none);
    error_code failed;
    http::read(socket_, buffer_, parser, failed);
    const auto ended = steady_clock::now();
    if (failed) return broken(failed);
    if (parser.get().result_int() != 200) return refusal(parser.get().result_int(), parser.get().body());
    auto read = read_completion(request, parser.get().body());
    if (read) read->ended = ended;
    return read;
  }

  /// The events of each read get their time before they are parsed.
  expected<delivery> read_stream(const errand& request) {
    http::response_parser<http::buffer_body> parser;
    parser.body_limit(boost::none);
    error_code failed;
    http::read_header(socket_, buffer_, parser, failed);
    if (failed) return broken(failed);
    std::array<char, 16384> part;
    sse_splitter events;
    std::string refused;
    while (!parser.is_done()) {
      parser.get().body() = {part.data(), part.size(), true};
      http::read_some(socket_, buffer_, parser, failed);
      const auto now = steady_clock::now();
      if (failed && failed != http::error::need_buffer) return broken(failed);
      const std::string_view bytes(part.data(), part.size() - parser.get().body().size);
      if (parser.get().result_int() == 200)
        events.add(bytes, now);
      else
        refused += bytes;
    }
    const auto ended = steady_clock::now();
    if (parser.get().result_int() != 200) return refusal(parser.get().result_int(), refused);
    auto read = read_completion_stream(request, events.take());
    if (read) read->ended = ended;
    return read;
  }

  bool streamed_;
  asio::io_context context_;
  tcp::socket socket_{context_};
  boost::beast::flat_buffer buffer_;
  std::string host_;
};

class http_door final : public door {
 public:
  http_door(std::uint16_t port, bool streamed) : port_(port), streamed_(streamed) {}
  expected<std::unique_ptr<connection>> connect() override {
    auto client = std::make_unique<http_client>(streamed_);
    if (auto opened = client->open(port_); !opened) return std::move(opened).error();
    return std::unique_ptr<connection>(std::move(client));
  }

 private:
  std::uint16_t port_;
  bool streamed_;
};

} // namespace

std::unique_ptr<door> make_http_door(std::uint16_t port, bool streamed) {
  return std::make_unique<http_door>(port, streamed);
}

} // namespace paceline::apps::bench
