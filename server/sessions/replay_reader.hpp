#pragma once

#include "server/sessions/replay_log.hpp"

#include <memory>

namespace paceline::server {

/// Receives the events of a replayed response.
class replay_sink : public response_listener {
 public:
  /// Another connection reads this response now.
  virtual void on_replaced() = 0;
};

/// Passes the events of a log to a sink as fast as the sink accepts them. All functions are called on the
/// sink's executor.
class replay_reader : public std::enable_shared_from_this<replay_reader> {
 public:
  replay_reader(const edge_context& edge, executor_ptr executor, std::shared_ptr<replay_log> log,
                std::weak_ptr<replay_sink> sink);
  ~replay_reader();
  replay_reader(const replay_reader&) = delete;
  replay_reader& operator=(const replay_reader&) = delete;

  /// False if the log no longer holds the events from `start` on.
  bool start(const replay_start& start);
  void on_writable() { pump(); }

 private:
  void pump();

  const edge_context& edge_;
  executor_ptr executor_;
  std::shared_ptr<replay_log> log_;
  std::weak_ptr<replay_sink> sink_;
  std::optional<std::uint64_t> reader_;
};

} // namespace paceline::server
