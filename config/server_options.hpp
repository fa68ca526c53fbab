#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline::config {

/// PEM files for TLS. Without a certificate the server speaks plain HTTP.
struct tls_options {
  std::string certificate; ///< chain, the server's own certificate first
  std::string key;         ///< the certificate's private key, without a passphrase
  std::string client_ca; ///< authorities for client certificates: if set, clients must present a certificate
};

/// Options of the daemon's network side. Sizes are in bytes.
struct server_options {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;          ///< 0: a free one
  std::string api_keys_file;          ///< file with one key a line; empty: no keys
  bool allow_unauthenticated = false; ///< allow listening beyond loopback without keys
  tls_options tls;
  /// Origins of web pages that may send requests, in addition to loopback.
  std::vector<std::string> allowed_origins;
  /// Values of the Host header that are served in addition to loopback names. Empty: a server bound beyond
  /// loopback serves any value if it has keys, and otherwise IP addresses and `host`.
  std::vector<std::string> allowed_hosts;
  std::uint32_t max_connections = 1024;
  std::uint32_t max_lanes = 16; ///< responses in flight on one WebSocket
  std::uint64_t max_header_bytes = 16 * 1024;
  std::uint64_t max_body_bytes = 8 * 1024 * 1024; ///< for an HTTP body or WebSocket message
  // `body_memory_bytes`, `kept_memory_bytes` and `output_memory_bytes` are together well below 512 MiB, which
  // leaves room for a thousand connections: docs/decisions/0524.
  std::uint64_t body_memory_bytes = 128 * 1024 * 1024; ///< for all bodies that arrive or wait to be parsed
  /// For conversations and responses that are kept for later requests.
  std::uint64_t kept_memory_bytes = 96 * 1024 * 1024;
  std::chrono::milliseconds response_ttl{std::chrono::hours(1)}; ///< of stored responses
  std::uint64_t output_memory_bytes = 96 * 1024 * 1024;          ///< for output that clients have not read
  std::uint64_t send_buffer_bytes = 256 * 1024; ///< unsent output of a request above which the request pauses
  std::chrono::milliseconds header_timeout{std::chrono::seconds(10)}; ///< for a whole HTTP header to arrive
  std::chrono::milliseconds body_timeout{std::chrono::seconds(60)};   ///< for a whole HTTP body to arrive
  /// After this time a connection without a request is closed; WebSockets are pinged before.
  std::chrono::milliseconds idle_timeout{std::chrono::minutes(5)};
  /// A client should read its waiting output at 1 KiB a second or faster. It is disconnected when it lags
  /// behind this rate by more than this time.
  std::chrono::milliseconds send_timeout{std::chrono::seconds(30)};
  std::chrono::milliseconds request_timeout{std::chrono::minutes(10)}; ///< from admission to the last token
  std::uint32_t edge_threads = 2; ///< for tokenizers, templates and similar work
};

struct metrics_options {
  bool enabled = true;
  bool vllm_names = false;  ///< also report metrics under vLLM's names
  bool require_key = false; ///< `/metrics` needs an API key
};

enum class log_level : std::uint8_t { debug, info, warning, error, off };
enum class log_format : std::uint8_t { text, json };

struct logging_options {
  log_level level = log_level::info;
  log_format format = log_format::text;
  std::string file; ///< empty: standard error
};

struct shutdown_options {
  /// On SIGTERM: time for running requests to finish before they are cancelled.
  std::chrono::milliseconds drain_timeout{std::chrono::seconds(30)};
};

} // namespace paceline::config
