#pragma once

#include "engine/snapshot.hpp"
#include "server/http/router.hpp"
#include "server/metrics/histogram.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::server {

class exposition;

/// Distributions of values of one model's requests, measured at the network side. Times are in seconds.
struct model_metrics {
  histogram first_token{first_token_bounds()};
  histogram token_gap{token_gap_bounds()}; ///< one observation for each token, not for each event
  /// Decode time divided by the number of tokens after the first; one observation for each request.
  histogram time_per_token{token_gap_bounds()};
  /// For streamed events: time from the commit of the tokens to the write to the socket.
  histogram commit_to_write{delay_bounds()};
  histogram total{latency_bounds()};
  histogram queued{first_token_bounds()};
  histogram prefill{first_token_bounds()};
  histogram decode{latency_bounds()};
  histogram prompt_tokens{token_count_bounds()};
  histogram output_tokens{token_count_bounds()};
};

/// The counters of the edge, which is the HTTP and WebSocket server. Any thread may count; /metrics reads.
class edge_metrics {
 public:
  explicit edge_metrics(const std::vector<std::string>& model_names);

  /// The metrics of a model, which must be configured.
  model_metrics& of(std::string_view model);
  void count_reply(endpoint target, int status) noexcept;
  /// Counts a request that was refused before it had an endpoint.
  void count_refusal(int status) noexcept;

  std::atomic<std::uint64_t> connections_total{0};
  std::atomic<std::uint64_t> connections_active{0};
  std::atomic<std::uint64_t> connections_refused{0}; ///< over the limit: answered with 503 or closed
  std::atomic<std::uint64_t> connections_evicted{0}; ///< silent connections closed to make room
  std::atomic<std::uint64_t> tls_handshakes{0};
  std::atomic<std::uint64_t> tls_failures{0};         ///< handshakes that did not complete
  std::atomic<std::int64_t> certificate_not_after{0}; ///< seconds since 1970; 0 without TLS
  /// Bodies refused for lack of memory while they arrived or waited to be parsed.
  std::atomic<std::uint64_t> bodies_given_up{0};
  std::atomic<std::uint64_t> outputs_given_up{0}; ///< connections closed for lack of memory for output
  std::atomic<std::uint64_t> websockets_total{0};
  std::atomic<std::uint64_t> websockets_active{0};
  std::atomic<std::uint64_t> disconnect_cancels{0}; ///< requests cancelled because their client left
  std::atomic<std::uint64_t> stalled_closes{0};  ///< connections closed because their client stopped reading
  std::atomic<std::uint64_t> flow_pauses{0};     ///< times a stream withheld credit from the engine
  std::atomic<std::uint64_t> edge_rejections{0}; ///< refused because the edge pool's queue was full
  std::atomic<std::uint64_t> auth_failures{0};
  std::atomic<std::uint64_t> open_requests{0}; ///< generations whose client is waiting
  std::atomic<std::uint64_t> reloads_applied{0};
  std::atomic<std::uint64_t> reloads_refused{0};
  std::atomic<bool> last_reload_refused{false};
  // Values that are set before each scrape:
  /// Share of the models' bytes that has been read; 1 once the models are in service.
  std::atomic<double> load_share{1};
  std::atomic<std::uint64_t> event_watchers{0}; ///< clients of /paceline/events
  std::atomic<std::uint64_t> log_lines_dropped{0};
  /// Bytes of stored responses, conversations and logs of resumable responses.
  std::atomic<std::uint64_t> kept_bytes{0};
  std::atomic<std::uint64_t> kept_evictions{0};

  /// Prometheus text of the edge, the engine and the process, with vLLM's names if asked for.
  std::string text(const engine_snapshot& snapshot, bool vllm_names) const;

 private:
  /// The endpoints, and one entry for requests that were refused before their endpoint was known.
  static constexpr std::size_t num_endpoints = static_cast<std::size_t>(endpoint::page_file) + 2;
  static constexpr std::size_t num_classes = 6; ///< the first digit of the status

  void write_clients(exposition& out) const;
  void write_operation(exposition& out) const;
  void write_replies(exposition& out) const;

  std::map<std::string, std::unique_ptr<model_metrics>, std::less<>> models_;
  std::array<std::array<std::atomic<std::uint64_t>, num_classes>, num_endpoints> replies_{};
};

} // namespace paceline::server
