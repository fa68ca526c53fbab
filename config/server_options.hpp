#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline::config {

/// What the daemon's edge is made from: plain values, already validated.
struct server_options {
  std::string host = "127.0.0.1";    ///< address to bind
  std::uint16_t port = 8000;         ///< 0 = any free one
  std::uint32_t io_threads = 2;      ///< sockets and frames
  std::uint32_t edge_threads = 2;    ///< parsing, templates, tokenization
  std::uint32_t max_edge_jobs = 256; ///< waiting for an edge thread; more is refused with 503
  std::uint32_t max_connections = 4096;

  std::string api_keys_file;                ///< one key a line, # comments; empty = no keys
  bool allow_open_bind = false;             ///< serve beyond loopback without keys
  bool open_metrics = true;                 ///< /metrics needs no key
  std::vector<std::string> allowed_origins; ///< of browsers; "*" = all; a page served by us is always allowed
  std::vector<std::string>
      allowed_hosts; ///< Host values besides the loopback names; empty = any on an open bind

  std::uint64_t max_body_bytes = 8U << 20U;
  std::uint32_t max_header_bytes = 16U << 10U;
  std::uint32_t max_headers = 100;
  std::uint32_t max_choices = 128;   ///< largest n
  std::uint32_t max_sequences = 256; ///< n times the prompts of one request

  std::chrono::milliseconds header_timeout{std::chrono::seconds(10)};  ///< first to last byte of a head
  std::chrono::milliseconds body_timeout{std::chrono::seconds(10)};    ///< plus one second a KiB
  std::chrono::milliseconds idle_timeout{std::chrono::seconds(75)};    ///< between requests of a connection
  std::chrono::milliseconds request_timeout{std::chrono::minutes(10)}; ///< of one generation
  std::chrono::milliseconds stall_timeout{std::chrono::seconds(30)};   ///< a write that makes no progress
  std::chrono::milliseconds keep_alive{std::chrono::seconds(15)};      ///< comment lines on a silent stream
  std::chrono::milliseconds ping_interval{std::chrono::seconds(20)};   ///< of WebSocket connections
  std::chrono::milliseconds websocket_lifetime{std::chrono::minutes(60)};

  std::uint64_t max_outbound_bytes = 256U << 10U; ///< queued for one connection; above it, generation pauses
  std::uint32_t initial_credit = 64;              ///< tokens a stream may run ahead of its client
  std::uint64_t max_frame_bytes = 8U << 20U;      ///< of one WebSocket message
  std::uint32_t max_lanes = 16;                   ///< responses in flight of one WebSocket connection
  std::uint32_t max_stored_responses = 64;        ///< of one WebSocket connection, for previous_response_id
  std::uint64_t max_stored_bytes = 4U << 20U;
  std::uint64_t max_replay_bytes = 4U << 20U;                           ///< of one resumable response
  std::uint32_t max_replays = 256;                                      ///< resumable responses kept at once
  std::chrono::milliseconds replay_retention{std::chrono::seconds(60)}; ///< after the last client has gone

  bool vllm_metric_names = true; ///< also print vLLM's metric families
};

} // namespace paceline::config
