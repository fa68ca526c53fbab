#pragma once

#include "runtime/base/error.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/request.hpp"
#include "runtime/base/token_event.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caf {
class actor_system;
class actor_system_config;
} // namespace caf

namespace paceline {

namespace config {
struct engine_options;
}
class engine_probe;
class served_model;
struct engine_fault;
struct engine_snapshot;

/// Receives a request's events in order, the last one with `finish != none`. Called on an actor thread: it
/// must not block and must not throw.
using event_sink = std::function<void(const token_event&)>;

/// How many tokens a request may commit before its client has taken earlier ones.
struct flow_control {
  /// If the engine grants credit itself: how many committed tokens of a request may be in events for which
  /// the sink has not returned yet. Enough for seven rounds with the longest draft (64 tokens and one more);
  /// at most two rounds are in flight.
  static constexpr std::uint32_t own_window = 512;
  /// Tokens that may be committed before `grant` is called. If it is 0, the engine pauses the request until
  /// `grant` is called. The score of a prompt token (`sampling.prompt_logprobs`) counts as one token.
  /// nullopt: the engine grants credit for each event for which the sink has returned, so a slow sink slows
  /// down its own request only.
  std::optional<std::uint32_t> initial_credit = std::nullopt;
};

/// Progress of loading, in bytes. `stage` names the model or drafter ("smollm2: weights").
struct load_progress {
  std::string stage;
  std::uint64_t done = 0;
  std::uint64_t total = 0;
};

/// The runtime: models, pools and actors in one object. All functions are thread-safe. The engine never
/// installs signal handlers.
///
/// The destructor must not run at the same time as another function. It cancels running requests and waits
/// until every sink has received its last event and all actors have ended. No sink is called afterwards. Do
/// not destroy an engine inside a sink: the destructor would wait for that sink.
class engine {
 public:
  /// Loads every configured model and starts the actors in an actor system of its own. Blocks until this is
  /// done. `progress` is called on the threads that load, one call at a time, and must not throw. Error: that
  /// of the first model or drafter that cannot be loaded, or errc::resource_exhausted if the memory does not
  /// suffice for weights or KV cells.
  static expected<std::unique_ptr<engine>> start(const config::engine_options& options,
                                                 std::function<void(const load_progress&)> progress = {});

  /// The same inside `system`. The system must outlive the engine, and its configuration must have been
  /// passed to `prepare`.
  static expected<std::unique_ptr<engine>> start(caf::actor_system& system,
                                                 const config::engine_options& options,
                                                 std::function<void(const load_progress&)> progress = {});

  /// Adds Paceline's message types to an actor system's configuration; call before the system is made.
  static void prepare(caf::actor_system_config& configuration);

  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// Configured model by name or alias; "" and "default" are the first one. Null if there is no such model.
  const served_model* model(std::string_view name) const noexcept;
  std::vector<const served_model*> models() const;

  /// Starts a generation. Never blocks. Every error, even that of an invalid request, arrives at `sink` as
  /// the final event.
  request_id submit(generation_request request, event_sink sink, flow_control flow = {});

  /// Ends a request with `finish_reason::cancelled`; unknown or finished ids are ignored.
  void cancel(request_id request);

  /// Allows a request to commit `tokens` more tokens, or to report the scores of as many tokens of its
  /// prompt. Unknown or finished ids are ignored.
  void grant(request_id request, std::uint32_t tokens);

  /// Refuses new requests from now on (errc::draining) and waits until no request is left. Returns false if
  /// some are left after `timeout`.
  bool drain(std::chrono::milliseconds timeout);

  /// False if this process should be restarted: no model is in service, a device does not answer, or the
  /// supervisor, which restarts failed actors, has failed. True if another part is lost and a model is still
  /// in service; `faults` reports the loss.
  bool healthy() const noexcept;

  /// What failed since the start, one entry for each part; see engine/snapshot.hpp. Does not block.
  std::vector<engine_fault> faults() const;

  /// Counters and gauges; see engine/snapshot.hpp. Asks the actors and waits at most one second. If actors of
  /// a model do not answer in time, its last known figures are returned, marked as late.
  engine_snapshot snapshot() const;

 private:
  friend class engine_probe;
  struct impl;
  explicit engine(std::unique_ptr<impl> parts);
  std::unique_ptr<impl> impl_;
};

} // namespace paceline
