#pragma once

#include "apps/bench/workload.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/base/request.hpp"
#include "runtime/base/token_event.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {
class engine;
}
namespace paceline::server {
class http_server;
}

namespace paceline::apps::bench {

/// The interface through which a request reaches the engine.
enum class door_kind : std::uint8_t {
  http,       ///< the daemon's HTTP API, streamed (server-sent events)
  websocket,  ///< the daemon's Responses WebSocket mode, streamed
  engine,     ///< calls of `engine::submit`, without server, protocol and socket
  unstreamed, ///< the daemon's HTTP API with the reply in one piece
};
inline constexpr std::array<std::string_view, 4> door_names{"http", "websocket", "engine", "unstreamed"};
inline std::string_view name_of(door_kind kind) { return door_names[static_cast<std::size_t>(kind)]; }

/// One request, independent of the interface.
struct errand {
  const workload_prompt* prompt = nullptr;
  std::string drafter;
  std::optional<std::uint32_t> draft_length = {};
  std::optional<overlap_request> overlap = {};
  /// Sent as "cache_salt" and "user", so that the request reuses no KV and no earlier text of requests with
  /// another value.
  std::string salt = {};
  std::uint32_t max_tokens = 128;
  float temperature = 0;
  std::uint64_t seed = 1;
  bool trace = false; ///< ask for a trace of every round, which makes events larger
};

using time_point = std::chrono::steady_clock::time_point;

/// Tokens that reached the client together.
struct arrival {
  time_point time;
  std::uint32_t num_tokens = 0;
};

/// The result of a request, with times by the client's clock. Already checked: the reply is complete, its
/// usage equals the number of tokens received, and the model received the prompt's tokens.
struct delivery {
  time_point sent;  ///< just before the request's first byte was written
  time_point ended; ///< when the reply's last byte was read
  std::vector<token_id> tokens;
  std::string text;
  std::vector<arrival> arrivals; ///< events with tokens; empty for an unstreamed reply
  std::uint64_t num_rounds = 0;  ///< rounds that committed tokens, from the trace; 0 without it
  std::optional<speculation_stats> speculation;

  double seconds() const { return std::chrono::duration<double>(ended - sent).count(); }
};

/// A client's connection, for one request at a time. Not thread-safe.
class connection {
 public:
  virtual ~connection() = default;
  /// Sends the request and waits for the end of the reply. A refusal, a broken stream or a wrong number of
  /// tokens is an error.
  virtual expected<delivery> ask(const errand& request) = 0;
};

/// A factory of connections through one interface. Thread-safe.
class door {
 public:
  virtual ~door() = default;
  virtual expected<std::unique_ptr<connection>> connect() = 0;
};

std::unique_ptr<door> make_engine_door(engine& runtime);
// Doors to the server at 127.0.0.1:`port`.
std::unique_ptr<door> make_http_door(std::uint16_t port, bool streamed);
std::unique_ptr<door> make_websocket_door(std::uint16_t port);

/// The doors of one engine. The doors of the daemon share a server with default options, in this process, on
/// a free loopback port.
class door_set {
 public:
  /// `runtime` must outlive the set.
  static expected<door_set> open(engine& runtime, std::span<const door_kind> kinds);
  door_set(door_set&&) noexcept;
  ~door_set();

  /// `kind` must have been opened.
  door& at(door_kind kind) const { return *doors_.at(static_cast<std::size_t>(kind)); }

 private:
  door_set();
  std::unique_ptr<server::http_server> server_; ///< must outlive its doors
  std::array<std::unique_ptr<door>, door_names.size()> doors_;
};

/// Sends the requests at the same time, each on its own connection. All connections are opened before the
/// first request is sent. Returns the results in the order of `requests`, or the first error.
expected<std::vector<delivery>> deliver_together(door& through, std::span<const errand> requests);

} // namespace paceline::apps::bench
