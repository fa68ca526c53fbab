#pragma once

#include "server/service.hpp"

#include "scripted_backend.hpp"

#include <boost/json/parse.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::server {

/// Headers of a request with a body.
inline const std::string json_body = "Content-Type: application/json\r\nContent-Length: 10\r\n";

/// A service over the scripted backend, asked without sockets.
struct served {
  scripted_edge edge;
  service requests;
  std::shared_ptr<recording_channel> channel = std::make_shared<recording_channel>();

  explicit served(std::vector<std::string> keys = {})
      : requests(edge.context, [this] { return edge.executor; }) {
    change([&](edge_settings& s) { s.keys = key_ring(keys); });
  }
  /// Applies other settings, like a reload.
  void change(const std::function<void(edge_settings&)>& edit) {
    auto settings = *edge.settings.get();
    edit(settings);
    edge.settings.set(std::move(settings));
  }

  static request_head head(std::string_view line, std::string_view more = "") {
    std::string text(line);
    text.append(" HTTP/1.1\r\nHost: localhost:8080\r\n").append(more).append("\r\n");
    return std::get<head_complete>(parse_request_head(text, {})).head;
  }
  /// 0 = admitted, else the status of the answer.
  int admit(std::string_view line, std::string_view more = "") {
    auto decision = requests.admit(head(line, more));
    if (auto* answered = std::get_if<answered_request>(&decision)) {
      last = answered->reply;
      closes = answered->close;
      return answered->reply.status;
    }
    return 0;
  }
  /// Status of the reply to a request.
  int ask(std::string_view line, std::string_view more = "", std::string body = "") {
    channel = std::make_shared<recording_channel>();
    auto decision = requests.admit(head(line, more));
    if (auto* answered = std::get_if<answered_request>(&decision)) {
      last = answered->reply;
      return answered->reply.status;
    }
    exchange = requests.handle(std::get<admitted_request>(decision), std::move(body), channel, edge.executor);
    edge.executor->run();
    if (!channel->replied) return 0;
    last = *channel->replied;
    return last.status;
  }
  boost::json::value body() const { return boost::json::parse(last.body); }

  http_reply last;
  bool closes = false;
  std::shared_ptr<server::exchange> exchange;
};

} // namespace paceline::server
