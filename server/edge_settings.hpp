#pragma once

#include "config/server_options.hpp"
#include "runtime/base/expected.hpp"
#include "server/http/access.hpp"

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace paceline::server {

/// What of the edge may change while it runs: the options marked *reload*. Constant once made.
struct edge_settings {
  key_ring keys;
  std::vector<std::string> allowed_origins;
  std::chrono::milliseconds request_timeout{};
  bool vllm_names = false;
  bool metrics_require_key = false;

  /// Reads the file of keys. Errors: it is unreadable, or `bound_host` is open to other machines without keys
  /// and nobody asked for that. The host and its permission are those of the running server.
  static expected<edge_settings> from(const config::server_options& options,
                                      const config::metrics_options& metrics, const std::string& bound_host,
                                      bool allow_unauthenticated);
};

/// The settings in force: whoever needs one takes the whole set and keeps it as long as the request needs it,
/// so that nobody sees half of a change. Thread-safe.
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
