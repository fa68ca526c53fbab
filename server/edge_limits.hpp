#pragma once

#include "runtime/base/request_limits.hpp"

#include <chrono>
#include <cstdint>

namespace paceline::server {

/// Bounds of the edge that nobody needs to configure; tests make them small.
struct edge_limits {
  std::uint32_t io_threads = 2;      ///< for sockets and frames
  std::uint32_t max_edge_jobs = 256; ///< waiting for an edge thread; more is refused with 503
  std::uint32_t max_headers = 100;
  std::uint32_t max_choices = 128;   ///< largest n
  std::uint32_t max_sequences = 256; ///< n times the prompts of one request
  /// Tokens a stream may run ahead of its client. Holds three rounds of the longest draft (64 tokens and one
  /// more): two in flight, and one that is on its way to the client. With less, drafts get shorter.
  std::uint32_t initial_credit = 256;
  std::uint32_t least_credit = 65; ///< of each of many choices, which share what a few may run ahead
  /// A reply that is not streamed keeps so many bytes of choices; then it begins with those that have ended,
  /// and of the others the first alone goes on until the client has taken some.
  std::uint64_t kept_of_reply = 12U << 20U;
  std::uint32_t max_stored_responses = 64; ///< of one WebSocket connection, for previous_response_id
  std::uint64_t max_stored_bytes = 4U << 20U;
  std::uint64_t max_replay_bytes = 4U << 20U;                           ///< of one resumable response
  std::uint32_t max_replays = 256;                                      ///< resumable responses kept at once
  std::chrono::milliseconds replay_retention{std::chrono::seconds(60)}; ///< after the last reader has gone
  std::chrono::milliseconds keep_alive{std::chrono::seconds(15)};       ///< comment lines on a silent stream
  std::uint64_t min_bytes_per_second = 1024; ///< of a body that arrives and of output that waits, on average
  std::chrono::milliseconds final_words{
      std::chrono::seconds(1)}; ///< for the last events of what a drain cuts
  std::chrono::milliseconds websocket_lifetime{std::chrono::minutes(60)};
};
static_assert(edge_limits{}.initial_credit >= 3 * (max_draft_length + 1));

} // namespace paceline::server
