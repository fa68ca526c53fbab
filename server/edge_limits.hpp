#pragma once

#include "runtime/base/request_limits.hpp"

#include <chrono>
#include <cstdint>

namespace paceline::server {

/// Limits of the edge (the network side of the server) that are not configurable. Tests make them small.
struct edge_limits {
  std::uint32_t io_threads = 2;      ///< for sockets and frames
  std::uint32_t max_edge_jobs = 256; ///< jobs waiting for an edge thread; more are refused with 503
  std::uint32_t max_headers = 100;
  std::uint32_t max_choices = 128;   ///< largest n
  std::uint32_t max_sequences = 256; ///< n times the number of prompts in one request
  /// Tokens that a stream may commit before its client has read earlier ones. Enough for three rounds with
  /// the longest draft (64 tokens and one more): two in flight, and one on its way to the client. Smaller
  /// values shorten drafts.
  std::uint32_t initial_credit = 256;
  std::uint32_t least_credit = 65; ///< minimum credit of each choice when many choices share `initial_credit`
  /// Bytes of finished and unfinished choices that a reply that is not streamed may hold. Above it, sending
  /// begins with the choices that are finished. Of the unfinished ones only the first continues until the
  /// client has read some of the reply.
  std::uint64_t kept_of_reply = 12U << 20U;
  std::uint32_t max_stored_responses = 64;    ///< in one WebSocket connection, for previous_response_id
  std::uint64_t max_stored_bytes = 4U << 20U; ///< in one WebSocket connection, and in one stored response
  std::uint32_t max_responses_of_key = 1024;  ///< stored responses of one API key
  std::uint64_t max_replay_bytes = 4U << 20U; ///< in one resumable response
  std::uint32_t max_replays = 256;            ///< resumable responses kept at once
  std::chrono::milliseconds replay_retention{std::chrono::seconds(60)}; ///< after the last reader has left
  std::uint32_t max_watchers = 16;                                      ///< clients of /paceline/events
  /// After this time without an event, a stream gets a comment line.
  std::chrono::milliseconds keep_alive{std::chrono::seconds(15)};
  /// Lowest average rate of a body that arrives, and of a client that reads waiting output.
  std::uint64_t min_bytes_per_second = 1024;
  /// Time to send the last events of requests that the end of a drain has cut short.
  std::chrono::milliseconds final_words{std::chrono::seconds(1)};
  std::chrono::milliseconds websocket_lifetime{std::chrono::minutes(60)};
};
static_assert(edge_limits{}.initial_credit >= 3 * (max_draft_length + 1));

} // namespace paceline::server
