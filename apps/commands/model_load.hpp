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

/// What `options` make a daemon read, in this order, with the sizes of the files.
std::vector<server::load_part> parts_of(const config::engine_options& options);

/// The load of a daemon's models, on a thread of its own: its main thread obeys signals meanwhile. A load
/// cannot be interrupted, so the destructor waits for it.
class model_load {
 public:
  /// Begins the load of `options`, which must outlive it. `on_progress` is called on threads of the load,
  /// `on_end` once, when `has_ended` has become true.
  model_load(const config::engine_options& options, std::function<void(const load_progress&)> on_progress,
             std::function<void()> on_end);

  bool has_ended() const noexcept { return has_ended_; }
  /// The result; waits for the end. Called once.
  expected<std::unique_ptr<engine>> take();

 private:
  std::optional<expected<std::unique_ptr<engine>>> result_; ///< set before `has_ended_`
  std::atomic<bool> has_ended_{false};
  std::jthread thread_; ///< last: it uses the others
};

} // namespace paceline::apps
