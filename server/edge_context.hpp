#pragma once

#include "config/server_options.hpp"
#include "server/backend.hpp"
#include "server/edge_limits.hpp"
#include "server/edge_settings.hpp"
#include "server/event_log.hpp"
#include "server/executor.hpp"
#include "server/http/request_body.hpp"
#include "server/metrics/edge_metrics.hpp"
#include "server/metrics/stream_board.hpp"
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

/// What all sessions of one server share. Outlives them.
struct edge_context {
  /// Values at the start of the server. Options that a reload may change must be read from `settings`.
  const config::server_options& options;
  const config::metrics_options& metrics_options;
  settings_cell& settings; ///< current values of the options that a reload may change
  const edge_limits& limits;
  backend& runtime;
  edge_metrics& metrics;
  job_pool& jobs;
  job_pool& scrape_jobs; ///< for /metrics only, because a scrape may have to wait long
  event_log& log;
  std::string fingerprint;         ///< "system_fingerprint" of replies: "paceline-0.1.0"
  std::function<time_point()> now; ///< the clock, which tests replace
  /// Places for requests in the engine, divided between API keys.
  std::shared_ptr<waiting_places> places = std::make_shared<waiting_places>();

  std::shared_ptr<stream_board> streams = std::make_shared<stream_board>();

  /// Number of currently configured API keys.
  std::size_t num_tenants() const { return settings.get()->keys.size(); }
};

/// Who sends a request. Known before the body is read.
struct caller {
  /// The first half of the API key's SHA-256 digest, in hexadecimal; empty if no keys are configured.
  /// Requests of different tenants share neither prefix caches nor stored responses.
  std::string tenant;
  std::string request_id; ///< the client's x-request-id, or a generated one
  /// Lowest `priority` that the client's requests may ask for (lower runs first); any if no keys are
  /// configured.
  std::int32_t best_priority = std::numeric_limits<std::int32_t>::min();
};

/// Traits of a job that parses a body of `body_bytes` bytes for `who`.
job_traits traits_of(const edge_context& edge, const caller& who, std::size_t body_bytes);
/// Traits of a job that parses the generation `body` for `who`. If the body may name a grammar, a schema or
/// tools, the job is large, whatever its length, because the compilation of a grammar may take seconds.
job_traits generation_traits(const edge_context& edge, const caller& who, std::string_view body);

/// Must be called, on a thread of edge_pool, before the text of a body is read. Returns an error if the
/// body's memory was taken back while the body waited to be parsed (body_budget).
std::optional<wire::api_error> begin_reading(const edge_context& edge, const request_body& body);

/// `prefix` and 128 random bits in hexadecimal. The id cannot be guessed. If no keys are configured, this is
/// the only protection of the object that the id names. With keys, the tenant is compared, too.
std::string fresh_id(std::string_view prefix);
/// 64 random bits, for requests that name no seed.
std::uint64_t fresh_seed();
/// Seconds since 1970.
std::int64_t unix_time();

} // namespace paceline::server
