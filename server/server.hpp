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

/// The changes that a reload found in the files of keys and certificates.
struct edge_changes {
  key_changes keys;
  std::optional<certificate_facts> certificate; ///< the new certificate, if it has changed
};

/// The daemon's network side (edge): HTTP, server-sent events and WebSocket on one port, in front of one
/// engine. All functions are thread-safe. The destructor stops the server without draining.
class http_server {
 public:
  ~http_server();
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;

  /// The bound port; if the options have port 0, the one that the system chose.
  std::uint16_t port() const noexcept;
  /// "http://127.0.0.1:8000"; with TLS "https://…"
  std::string address() const;

  /// The certificate used for new connections; nullopt without TLS.
  std::optional<certificate_facts> certificate() const;

  /// Applies the options marked *reload* in config/README.md, and reads the files of keys and certificates
  /// again. Running requests keep the old values, and open connections stay open. On an error nothing
  /// changes. Errors: an unreadable file; a key that does not belong to the certificate; no API keys for an
  /// address that other machines can reach; TLS switched on or off. Metrics count successes and errors.
  expected<edge_changes> reload(const config::server_options& options,
                                const config::metrics_options& metrics);
  /// Counts a reload whose configuration could not be read.
  void count_refused_reload() noexcept;

  /// Refuses new generations (503, also from /readyz; /livez still answers 200), and waits at most
  /// `drain_timeout` until the running ones end. Then the generations that still run get the error
  /// `draining`, and all connections are closed. Returns when no thread and no connection of this server is
  /// left. True if no generation was cut short. Only the first call does this; later calls return true at
  /// once.
  bool stop(std::chrono::milliseconds drain_timeout);

  /// Starts a server for `runtime`; objects to which the backend refers must outlive the server. With a
  /// late_backend the port opens before the models are loaded: until then requests for models get 503
  /// `loading`, and /readyz shows the progress. Errors: port in use, unknown address, unreadable keys or
  /// certificates; an address that other machines can reach, with neither API keys nor
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

/// Starts a server for `runtime`, which must outlive the server.
expected<std::unique_ptr<http_server>> start(engine& runtime, config::server_options options,
                                             config::metrics_options metrics = {},
                                             std::shared_ptr<event_log> log = {});

} // namespace paceline::server
