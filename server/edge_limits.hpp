#pragma once

#include "runtime/base/request_limits.hpp"

#include <chrono>
#include <cstdint>

namespace paceline::server {

/// Limits of the edge that are not configurable; tests make them small.
struct edge_limits {
  std::uint32_t io_threads = 2;      ///< for sockets and frames
  std::uint32_t max_edge_jobs = 256; ///< jobs waiting for an edge thread; more are refused with 503
  std::uint32_t max_headers = 100;
  std::uint32_t max_choices = 128;   ///< largest n
  std::uint32_t max_sequences = 256; ///< n times the number of prompts in one request
  /// Tokens that a stream may run ahead of its client. Holds three rounds of the longest draft (64 tokens and
  /// one more): two in flight and one on its way to the client. Smaller values shorten drafts.
  std::uint32_t initial_credit = 256;
  std::uint32_t least_credit = 65; ///< minimum for each choice when many choices share the credit
  /// Bytes of choices that a reply that is not streamed may keep. Beyond it the reply starts with the
  /// finished choices, and of the others only the first continues until the client has read some.
  std::uint64_t kept_of_reply = 12U << 20U;
  std::uint32_t max_stored_responses = 64;    ///< in one WebSocket connection, for previous_response_id
  std::uint64_t max_stored_bytes = 4U << 20U; ///< in one WebSocket connection, and in one stored response
  std::uint32_t max_responses_of_key = 1024;  ///< stored responses of one API key
  std::uint64_t max_replay_bytes = 4U << 20U; ///< in one resumable response
  std::uint32_t max_replays = 256;            ///< resumable responses kept at once
  std::chrono::milliseconds replay_retention{std::chrono::seconds(60)}; ///< after the last reader has left
  std::uint32_t max_watchers = 16;                                      ///< of /paceline/events
  std::chrono::milliseconds keep_alive{std::chrono::seconds(15)};       ///< comment lines on a silent stream
  /// Average rate, for a body that arrives and for output that waits.
  std::uint64_t min_bytes_per_second = 1024;
  std::chrono::milliseconds final_words{
      std::chrono::seconds(1)}; ///< for the last events of requests that a drain ends
  std::chrono::milliseconds websocket_lifetime{std::chrono::minutes(60)};
};
static_assert(edge_limits{}.initial_credit >= 3 * (max_draft_length + 1));

} // namespace paceline::server
