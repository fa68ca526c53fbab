#pragma once

#include "server/sessions/websocket_session.hpp"

#include "scripted_backend.hpp"

#include <boost/json/parse.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::server {

/// What a session says to its client.
class recording_frames final : public frame_channel {
 public:
  std::vector<boost::json::object> frames;
  std::optional<close_code> closed;
  int reads = 0;
  bool full = false;
  std::function<void(const std::string& type)> on_frame; ///< a client that answers at once; may be empty
  void send(std::string text) override {
    frames.push_back(boost::json::parse(text).as_object());
    if (on_frame) on_frame(std::string(frames.back().at("type").as_string()));
  }
  void send(std::unique_ptr<wire::text_source> text) override { send(text->next(1U << 30U)); }
  void read_next() override { ++reads; }
  bool congested() const override { return full; }
  void send_binary(bool) override {}
  void close(close_code code, std::string_view) override { closed = code; }

  std::vector<std::string> types() const {
    std::vector<std::string> names;
    for (const auto& frame : frames) names.emplace_back(frame.at("type").as_string());
    return names;
  }
  std::string error_code() const { return std::string(frames.back().at("error").at("code").as_string()); }
};

/// A WebSocket session, an engine that says what a test wants, and the client.
struct scripted_socket {
  scripted_edge edge;
  response_registry registry{4, std::chrono::seconds(60)};
  response_services services{edge.context, registry, [this] { return edge.executor; }};
  std::shared_ptr<recording_frames> channel = std::make_shared<recording_frames>();
  std::shared_ptr<websocket_session> session =
      std::make_shared<websocket_session>(services, edge.executor, channel, caller{"", "req"});

  void say(std::string text) {
    session->on_text(std::move(text));
    edge.executor->run();
  }
  void tokens(std::uint64_t id, std::string_view text) {
    edge.engine.tokens(id, text);
    edge.executor->run();
  }
  void end(std::uint64_t id, finish_reason finish = finish_reason::stop) {
    edge.engine.end(id, finish);
    edge.executor->run();
  }
  std::string response_id(std::size_t frame = 0) {
    return std::string(channel->frames.at(frame).at("response").at("id").as_string());
  }
};

} // namespace paceline::server
