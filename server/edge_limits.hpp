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
  /// Tokens that a stream may commit before its client has read earlier ones. Enough for three rounds of the
  /// longest draft, each with 64 draft tokens and one more: two rounds in flight, and one on its way to the
  /// client. Smaller values shorten drafts.
  std::uint32_t initial_credit = 256;
  /// Least credit of a choice, in tokens. Up to eight choices of a request have `initial_credit` each; more
  /// than eight share eight times `initial_credit`.
  std::uint32_t least_credit = 65;
  /// Bytes of finished and unfinished choices that a reply without streaming may hold. Above this number,
  /// sending begins with the finished choices, and all unfinished choices except the first pause. They go on
  /// when the client has read enough of the reply.
  std::uint64_t kept_of_reply = 12U << 20U;
  std::uint32_t max_stored_responses = 64;    ///< in one WebSocket connection, for previous_response_id
  std::uint64_t max_stored_bytes = 4U << 20U; ///< in one WebSocket connection, and in one stored response
  std::uint32_t max_responses_of_key = 1024;  ///< stored responses of one API key
  std::uint64_t max_replay_bytes = 4U << 20U; ///< in one resumable response
  std::uint32_t max_replays = 256;            ///< resumable responses kept at once
  std::chrono::milliseconds replay_retention{std::chrono::seconds(60)}; ///< after the last reader has left
  std::uint32_t max_watchers = 16;                                      ///< clients of /paceline/events
  /// After this time without an event, a stream gets a comment line or a ping.
  std::chrono::milliseconds keep_alive{std::chrono::seconds(15)};
  /// Lowest average rate at which a body must arrive, and at which a client must read waiting output.
  std::uint64_t min_bytes_per_second = 1024;
  /// Time to send the last events of requests that the end of a drain has cut short.
  std::chrono::milliseconds final_words{std::chrono::seconds(1)};
  std::chrono::milliseconds websocket_lifetime{std::chrono::minutes(60)};
};
static_assert(edge_limits{}.initial_credit >= 3 * (max_draft_length + 1));

} // namespace paceline::server
