#include "apps/bench/door.hpp"

#include "config/server_options.hpp"
#include "server/server.hpp"

#include <algorithm>
#include <future>

namespace paceline::apps::bench {

door_set::door_set() = default;
door_set::door_set(door_set&&) noexcept = default;
door_set::~door_set() = default;

expected<door_set> door_set::open(engine& runtime, std::span<const door_kind> kinds) {
  door_set out;
  if (std::ranges::any_of(kinds, [](door_kind kind) { return kind != door_kind::engine; })) {
    config::server_options options;
    options.port = 0;
    auto started = server::start(runtime, options);
    if (!started) return std::move(started).error();
    out.server_ = *std::move(started);
  }
  for (const auto kind : kinds) {
    auto& place = out.doors_[static_cast<std::size_t>(kind)];
    switch (kind) {
    case door_kind::engine:
      place = make_engine_door(runtime);
      break;
    case door_kind::http:
    case door_kind::unstreamed:
      place = make_http_door(out.server_->port(), kind == door_kind::http);
      break;
    case door_kind::websocket:
      place = make_websocket_door(out.server_->port());
      break;
    }
  }
  return out;
}

expected<std::vector<delivery>> deliver_together(door& through, std::span<const errand> requests) {
  std::vector<std::unique_ptr<connection>> connections;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto opened = through.connect();
    if (!opened) return std::move(opened).error();
    connections.push_back(*std::move(opened));
  }
  std::vector<std::future<expected<delivery>>> running;
  for (std::size_t i = 0; i < requests.size(); ++i)
    running.push_back(std::async(std::launch::async, [&connection = *connections[i], &request = requests[i]] {
      return connection.ask(request);
    }));
  std::vector<delivery> out;
  std::optional<error> failure;
  for (auto& each : running) {
    auto got = each.get();
    if (got)
      out.push_back(*std::move(got));
    else if (!failure)
      failure = std::move(got).error();
  }
  if (failure) return *std::move(failure);
  return out;
}

} // namespace paceline::apps::bench
