#pragma once

#include "actors/directory.hpp"
#include "protocol/messages.hpp"

#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

namespace caf {
class actor_system;
} // namespace caf

namespace paceline {

/// What the actors of a model said when they were last asked.
struct model_answers {
  std::optional<protocol::scheduler_answer> scheduler;
  std::optional<protocol::pool_answer> pool;
  bool is_late = false; ///< one of them is from an earlier question
};

/// Asks actors for their figures, and keeps what each said last. Thread-safe.
class actor_answers {
 public:
  /// By model. Asks everybody at once and waits once, a second at most: a scheduler that stalls costs one
  /// timeout, whatever the number of models, and shows what it said last.
  std::vector<model_answers> ask(caf::actor_system& system, const actors::directory& where,
                                 std::size_t num_models);

 private:
  std::mutex mutex_;
  std::vector<model_answers> last_; ///< by model
};

} // namespace paceline
