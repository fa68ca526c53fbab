#pragma once

#include "config/engine_options.hpp"
#include "engine/activity.hpp"
#include "engine/device_set.hpp"
#include "engine/engine.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/speculation/drafters/registry.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace paceline {

/// Access to the parts of a running engine, for tests and benches; this header is not installed. The engine
/// must outlive the probe. Thread-safe.
class engine_probe {
 public:
  explicit engine_probe(engine& probed) noexcept : engine_(&probed) {}

  /// Starts an engine with the drafter kinds of `registry` (the built-in ones and a test's own) and the GPUs
  /// of `open_gpu`. It runs in the actor system `inside`, or in one of its own if that is null.
  static expected<std::unique_ptr<engine>> start(const config::engine_options& options,
                                                 speculation::drafter_registry registry,
                                                 gpu_opener open_gpu = gpu::open_device,
                                                 caf::actor_system* inside = nullptr);

  /// Ends an actor as a crash would: "scheduler/0", "target_verifier/0", "draft_worker/0/1", "kv_pool",
  /// "fan_out", "supervisor". False if there is no actor of that name. The supervisor restarts all except
  /// itself.
  bool kill(const std::string& actor);
  /// Ends the session actor of a request as a crash would. False if the request has ended.
  bool kill_session(request_id request);

  /// The activity log of a model's streams. Null if there is no such model.
  const activity* log(std::string_view model) const noexcept;

 private:
  engine* engine_;
};

} // namespace paceline
