#pragma once

#include "config/server_options.hpp"
#include "server/backend.hpp"
#include "server/edge_limits.hpp"
#include "server/edge_settings.hpp"
#include "server/event_log.hpp"
#include "server/executor.hpp"
#include "server/http/request_body.hpp"
#include "server/metrics/edge_metrics.hpp"
#include "server/waiting_places.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

namespace paceline::server {

using time_point = std::chrono::steady_clock::time_point;

/// What every session of one server shares. Outlives all of them.
struct edge_context {
  const config::server_options& options; ///< those marked *reload* as they were at the start: see `settings`
  const config::metrics_options& metrics_options;
  settings_cell& settings; ///< what a reload may have changed
  const edge_limits& limits;
  backend& runtime;
  edge_metrics& metrics;
  job_pool& jobs;
  job_pool& scrape_jobs; ///< for /metrics alone: one may wait long
  event_log& log;
  std::string fingerprint; ///< "paceline-0.1.0"
  std::function<time_point()> now;
  /// In the engine, shared between keys.
  std::shared_ptr<waiting_places> places = std::make_shared<waiting_places>();

  /// API keys that are configured now.
  std::size_t num_tenants() const { return settings.get()->keys.size(); }
};

/// Who asks: decided once, before the body is read.
struct caller {
  std::string tenant; ///< digest of the API key; empty without keys. Separates prefix caches and responses
  std::string request_id; ///< the client's x-request-id, or one of ours
  /// The lowest it may ask for, which runs first; without keys any.
  std::int32_t best_priority = std::numeric_limits<std::int32_t>::min();
};

/// Of a job that reads `body_bytes` for `who`.
job_traits traits_of(const edge_context& edge, const caller& who, std::size_t body_bytes);

/// On an edge thread, before a body is read: why it is not, if it had to give way while it waited.
std::optional<wire::api_error> begin_reading(const edge_context& edge, const request_body& body);

/// `prefix` and 128 random bits: cannot be guessed, so knowing an id is a right to what it names.
std::string fresh_id(std::string_view prefix);
std::uint64_t fresh_seed();
/// Seconds since 1970.
std::int64_t unix_time();

} // namespace paceline::server
