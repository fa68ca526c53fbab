#pragma once

#include "config/server_options.hpp"
#include "runtime/base/expected.hpp"
#include "server/edge_limits.hpp"
#include "server/event_log.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace paceline {
class engine;
}

namespace paceline::server {

class backend;

/// The daemon's edge: HTTP, server-sent events and WebSocket on one port, in front of one engine. All
/// functions are thread-safe. Destroying it stops it without draining.
class http_server {
 public:
  ~http_server();
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;

  /// The port that was bound; with port 0 in the options, the one that was free.
  std::uint16_t port() const noexcept;
  /// "http://127.0.0.1:8000"
  std::string address() const;

  /// Takes over the options marked *reload*; requests that run keep what they began with, and connections
  /// that are open stay open. On an error (unreadable keys, an open bind left without any) nothing changes.
  /// Counted either way.
  expected<void> reload(const config::server_options& options, const config::metrics_options& metrics);
  /// Counts a configuration that could not even be read.
  void count_refused_reload() noexcept;

  /// Refuses new generations (503, /readyz too) while those in flight end, for at most `drain_timeout`;
  /// /livez is answered as before. What has not ended then ends with an error that says so, and everything is
  /// closed. Returns when no thread and no connection of this server is left. True if nothing was cut short.
  bool stop(std::chrono::milliseconds drain_timeout);

  /// `runtime` must outlive the server. Errors: port taken, address unknown, key file unreadable, an open
  /// bind without keys that was not asked for.
  static expected<std::unique_ptr<http_server>>
  start(std::unique_ptr<backend> runtime, config::server_options options,
        config::metrics_options metrics = {}, edge_limits limits = {}, std::shared_ptr<event_log> log = {});

 private:
  struct parts;
  explicit http_server(std::unique_ptr<parts> owned);
  std::unique_ptr<parts> parts_;
};

/// The edge of `runtime`, which must outlive it.
expected<std::unique_ptr<http_server>> start(engine& runtime, config::server_options options,
                                             config::metrics_options metrics = {},
                                             std::shared_ptr<event_log> log = {});

} // namespace paceline::server
