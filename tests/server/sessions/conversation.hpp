#pragma once

#include "server/sessions/completion_session.hpp"

#include "scripted_backend.hpp"

#include <boost/json/parse.hpp>

#include <cstdint>
#include <memory>
#include <string_view>

namespace paceline::server {

/// One request from body to reply.
struct conversation {
  scripted_edge edge;
  std::shared_ptr<recording_channel> channel = std::make_shared<recording_channel>();
  std::shared_ptr<completion_session> session =
      std::make_shared<completion_session>(edge.context, edge.executor, channel, caller{"", "req"});

  void complete(std::string_view body) { session->start(prepare_completion(edge.context, {}, body)); }
  void chat(std::string_view body) { session->start(prepare_chat(edge.context, {}, body)); }
  scripted_backend::submission& submitted(std::uint64_t id = 1) { return edge.engine.submissions.at(id); }
  void tokens(std::string_view text, std::uint64_t id = 1) {
    edge.engine.tokens(id, text);
    edge.executor->run();
  }
  void end(finish_reason finish, std::uint64_t id = 1) {
    edge.engine.end(id, finish);
    edge.executor->run();
  }
  boost::json::object reply() { return boost::json::parse(channel->replied.value().body).as_object(); }
};

} // namespace paceline::server
