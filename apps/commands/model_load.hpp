#pragma once

#include "config/engine_options.hpp"
#include "engine/engine.hpp"
#include "runtime/base/expected.hpp"
#include "server/load_status.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace paceline::apps {

/// The targets and drafting models that a daemon with these options loads, in this order, with the bytes of
/// their files. Trained heads are left out: their loading reports no progress.
std::vector<server::load_part> parts_of(const config::engine_options& options);

/// Loads a daemon's models on a thread of its own, so that the main thread can handle signals meanwhile. A
/// load cannot be interrupted, so the destructor waits for its end.
class model_load {
 public:
  /// Starts loading. `options` must outlive the object. `on_progress` and `on_end` are called on the threads
  /// that load. `on_end` is called once, after `has_ended` has become true.
  model_load(const config::engine_options& options, std::function<void(const load_progress&)> on_progress,
             std::function<void()> on_end);

  bool has_ended() const noexcept { return has_ended_; }
  /// Waits for the end of loading and returns its result. Must be called at most once.
  expected<std::unique_ptr<engine>> take();

 private:
  std::optional<expected<std::unique_ptr<engine>>> result_; ///< set before `has_ended_`
  std::atomic<bool> has_ended_{false};
  std::jthread thread_; ///< last, because it uses the other members
};

} // namespace paceline::apps
