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

/// The latest answers of a model's actors.
struct model_answers {
  std::optional<protocol::scheduler_answer> scheduler;
  std::optional<protocol::pool_answer> pool;
  bool is_late = false; ///< one of the actors did not answer the last question in time
};

/// Asks actors for their figures and keeps the last answer of each. Thread-safe.
class actor_answers {
 public:
  /// Returns the answers by model. Sends all questions at once and waits at most one second for all answers
  /// together. If an actor does not answer in time, its previous answer is returned.
  std::vector<model_answers> ask(caf::actor_system& system, const actors::directory& where,
                                 std::size_t num_models);

 private:
  std::mutex mutex_;
  std::vector<model_answers> last_; ///< by model
};

} // namespace paceline
