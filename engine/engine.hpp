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

/// How far a request may run ahead of its reader.
struct flow_control {
  /// Tokens ahead of what the sink has returned from, where the engine grants by itself. Holds seven rounds
  /// of the longest draft (64 tokens and one more), of which two are in flight.
  static constexpr std::uint32_t own_window = 512;
  /// Tokens that may be committed before `grant` is called. The engine pauses the request at 0, then goes on.
  /// The score of a prompt's token (`sampling.prompt_logprobs`) counts as a token. None: the engine grants
  /// what the sink has returned from, so that a slow sink holds its own request back.
  std::optional<std::uint32_t> initial_credit = std::nullopt;
};

/// Progress of loading: `stage` names the model or drafter ("smollm2: weights"); 0 <= done <= total.
struct load_progress {
  std::string stage;
  std::uint64_t done = 0;
  std::uint64_t total = 0;
};

/// The runtime: models, pools and actors behind one object. All functions are thread-safe; destruction must
/// not run at the same time as any of them. Destroying it cancels what runs, waits until every sink has had
/// its last event and all actors have ended, and calls no sink afterwards; not to be done in a sink, for
/// which it would wait. It never installs signal handlers.
class engine {
 public:
  /// Loads every configured model and starts the actors in an actor system of its own.
  static expected<std::unique_ptr<engine>> start(const config::engine_options& options,
                                                 std::function<void(const load_progress&)> progress = {});

  /// The same inside `system`, which must outlive the engine and whose configuration went through `prepare`.
  static expected<std::unique_ptr<engine>> start(caf::actor_system& system,
                                                 const config::engine_options& options,
                                                 std::function<void(const load_progress&)> progress = {});

  /// Adds Paceline's message types to an actor system's configuration; call before the system is made.
  static void prepare(caf::actor_system_config& configuration);

  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// Configured model by name or alias; "" and "default" are the first one. None if there is no such model.
  const served_model* model(std::string_view name) const noexcept;
  std::vector<const served_model*> models() const;

  /// Starts a generation. Never blocks; whatever goes wrong, an invalid request included, arrives at `sink`
  /// as the final event.
  request_id submit(generation_request request, event_sink sink, flow_control flow = {});

  /// Ends a request with `finish_reason::cancelled`; unknown or finished ids are ignored.
  void cancel(request_id request);

  /// Lets a request commit `tokens` more, or report as many scores of its prompt.
  void grant(request_id request, std::uint32_t tokens);

  /// Refuses new requests from now on (errc::draining) and returns true once none is left, false after
  /// `timeout`.
  bool drain(std::chrono::milliseconds timeout);

  /// False if this process is of no more use: no model serves, a device does not answer, or actors that fail
  /// are no longer started again. A part that is lost while others serve does not count: see `faults`.
  bool healthy() const noexcept;

  /// What failed since the start, one entry a part; see engine/snapshot.hpp. Waits for nobody.
  std::vector<engine_fault> faults() const;

  /// Counters and gauges; see engine/snapshot.hpp. Asks the actors and waits for at most a second: a model
  /// that does not answer shows its last known figures, marked as late.
  engine_snapshot snapshot() const;

 private:
  friend class engine_probe;
  struct impl;
  explicit engine(std::unique_ptr<impl> parts);
  std::unique_ptr<impl> impl_;
};

} // namespace paceline
