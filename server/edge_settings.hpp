#pragma once

#include "config/server_options.hpp"
#include "runtime/base/expected.hpp"
#include "server/http/access.hpp"
#include "server/net/tls_context.hpp"

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace paceline::server {

/// The settings of the edge (the server's network side) that a reload may change. They come from the options
/// marked *reload* in config/README.md, except `logging.level` and `shutdown.drain_timeout`, which do not
/// concern the edge. Immutable.
struct edge_settings {
  key_ring keys;
  std::vector<std::string> allowed_origins;
  std::chrono::milliseconds request_timeout{};
  bool vllm_names = false;
  bool metrics_require_key = false;
  std::shared_ptr<tls_context> tls = nullptr; ///< for connections accepted from now on; null: plain HTTP

  /// Reads the files of keys and certificates. Errors: a file is unreadable or invalid; or there are no keys
  /// although `bound_host` is not a loopback address and `allow_unauthenticated` is false. On a reload,
  /// `bound_host` and `allow_unauthenticated` must be those of the running server, because a reload does not
  /// change them.
  static expected<edge_settings> from(const config::server_options& options,
                                      const config::metrics_options& metrics, const std::string& bound_host,
                                      bool allow_unauthenticated);
};

/// The settings in force. Each request takes the whole set once and keeps it, so it never sees a mixture of
/// old and new settings. Thread-safe.
class settings_cell {
 public:
  explicit settings_cell(edge_settings initial)
      : current_(std::make_shared<const edge_settings>(std::move(initial))) {}

  std::shared_ptr<const edge_settings> get() const {
    std::lock_guard lock(mutex_);
    return current_;
  }
  void set(edge_settings replacement) {
    auto fresh = std::make_shared<const edge_settings>(std::move(replacement));
    std::lock_guard lock(mutex_);
    current_.swap(fresh);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const edge_settings> current_;
};

} // namespace paceline::server
