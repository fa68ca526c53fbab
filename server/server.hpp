#pragma once

#include "config/server_options.hpp"
#include "runtime/base/expected.hpp"
#include "server/edge_limits.hpp"
#include "server/event_log.hpp"
#include "server/http/access.hpp"
#include "server/net/tls_context.hpp"
#include "server/sessions/frame_channel.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace paceline {
class engine;
}

namespace paceline::server {

class backend;

/// What a reload found changed in the files that the options name.
struct edge_changes {
  key_changes keys;
  std::optional<certificate_facts> certificate; ///< if it is another one than before
};

/// The daemon's edge: HTTP, server-sent events and WebSocket on one port, in front of one engine. All
/// functions are thread-safe. The destructor stops it without draining.
class http_server {
 public:
  ~http_server();
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;

  /// The bound port; if the options have port 0, the one that the system chose.
  std::uint16_t port() const noexcept;
  /// "http://127.0.0.1:8000"; with TLS "https://…"
  std::string address() const;

  /// The certificate of new connections; none without TLS.
  std::optional<certificate_facts> certificate() const;

  /// Applies the options marked *reload*, and reads the files of keys and certificates again. Running
  /// requests keep the old values, and open connections stay open. On an error (unreadable keys, a key of
  /// another certificate, an open address without keys, TLS switched on or off) nothing changes. Both results
  /// are counted.
  expected<edge_changes> reload(const config::server_options& options,
                                const config::metrics_options& metrics);
  /// Counts a reload whose configuration could not be read.
  void count_refused_reload() noexcept;

  /// Refuses new generations (503, /readyz too) and lets those in flight end, for at most `drain_timeout`;
  /// /livez keeps answering 200. Generations that remain then end with an error that says so, and all
  /// connections are closed. Returns when no thread and no connection of this server is left. True if no
  /// generation was cut short.
  bool stop(std::chrono::milliseconds drain_timeout);

  /// What `runtime` refers to must outlive the server. A late_backend opens the port before the models are
  /// loaded: until then requests for them get 503 `loading`, and /readyz shows how far they are. Errors: port
  /// in use, unknown address, unreadable keys or certificates, an open address without keys and without
  /// `allow_unauthenticated`. `open_session`: see service.
  static expected<std::unique_ptr<http_server>>
  start(std::unique_ptr<backend> runtime, config::server_options options,
        config::metrics_options metrics = {}, edge_limits limits = {}, std::shared_ptr<event_log> log = {},
        frame_session_factory open_session = {});

 private:
  struct parts;
  explicit http_server(std::unique_ptr<parts> owned);
  std::unique_ptr<parts> parts_;
};

/// Starts the edge of `runtime`, which must outlive it.
expected<std::unique_ptr<http_server>> start(engine& runtime, config::server_options options,
                                             config::metrics_options metrics = {},
                                             std::shared_ptr<event_log> log = {});

} // namespace paceline::server
