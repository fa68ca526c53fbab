// The whole server with real sockets, while the engine does not return its figures.
#include "server/server.hpp"

#include "scripted_backend.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

namespace paceline::server {
namespace {

namespace http = boost::beast::http;

/// Answers every request with one word, but no request for figures until it is released.
class stalled_backend final : public backend {
 public:
  const model_view* model(std::string_view name) const noexcept override { return script_.model(name); }
  std::vector<const model_view*> models() const override { return script_.models(); }
  request_id submit(generation_request request, event_sink sink, flow_control flow) override {
    const request_id id = script_.submit(std::move(request), std::move(sink), flow);
    rounds_.emplace_back([this, id] { script_.end(id.value, finish_reason::stop, "word"); });
    return id;
  }
  void cancel(request_id) override {}
  void grant(request_id, std::uint32_t) override {}
  bool healthy() const noexcept override { return true; }
  engine_snapshot snapshot() const override {
    if (!asked_before_.exchange(true)) asked.set_value();
    released_.wait();
    return script_.snapshot();
  }

  mutable std::promise<void> asked; ///< for figures, for the first time
  std::promise<void> release;

 private:
  scripted_backend script_;
  mutable std::atomic<bool> asked_before_{false};
  const std::shared_future<void> released_{release.get_future()};
  std::vector<std::jthread> rounds_; ///< last: they end first
};

class client {
 public:
  explicit client(std::uint16_t port) { socket_.connect({boost::asio::ip::address_v4::loopback(), port}); }
  void send(http::verb method, std::string_view path, std::string body = "") {
    http::request<http::string_body> message(method, std::string(path), 11);
    message.set(http::field::host, "localhost");
    if (!body.empty()) message.set(http::field::content_type, "application/json");
    message.body() = std::move(body);
    message.prepare_payload();
    http::write(socket_, message);
  }
  http::response<http::string_body> receive() {
    http::response<http::string_body> reply;
    http::read(socket_, buffer_, reply);
    return reply;
  }

 private:
  boost::asio::io_context context_;
  boost::asio::ip::tcp::socket socket_{context_};
  boost::beast::flat_buffer buffer_;
};

// Nothing is timed: the figures are released when all other requests have been answered. A server that waited
// for them on its I/O thread or on the thread that prepares prompts, of which there is one each, would never
// get there.
TEST(stalled_engine, health_and_requests_are_answered_while_metrics_wait) {
  auto owned = std::make_unique<stalled_backend>();
  stalled_backend& engine = *owned;
  config::server_options options;
  options.port = 0;
  options.edge_threads = 1;
  edge_limits limits;
  limits.io_threads = 1;
  auto server = http_server::start(std::move(owned), options, {}, limits);
  ASSERT_TRUE(server) << server.error().message();
  const std::uint16_t port = (*server)->port();

  std::vector<std::unique_ptr<client>> scrapers;
  for (int n = 0; n < 8; ++n) {
    scrapers.push_back(std::make_unique<client>(port));
    scrapers.back()->send(http::verb::get, "/metrics");
  }
  engine.asked.get_future().wait();
  client other(port);
  for (int n = 0; n < 3; ++n) {
    other.send(http::verb::get, "/livez");
    EXPECT_EQ(other.receive().result_int(), 200U);
    other.send(http::verb::post, "/v1/completions", R"({"model":"bytes","prompt":"x","max_tokens":4})");
    const auto reply = other.receive();
    EXPECT_EQ(reply.result_int(), 200U);
    EXPECT_NE(reply.body().find("word"), std::string::npos) << reply.body();
  }

  engine.release.set_value();
  for (const auto& scraper : scrapers) {
    const auto reply = scraper->receive();
    EXPECT_EQ(reply.result_int(), 200U);
    EXPECT_NE(reply.body().find("paceline_"), std::string::npos);
  }
}

} // namespace
} // namespace paceline::server
