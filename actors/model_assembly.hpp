#pragma once

#include "actors/draft_worker_state.hpp"
#include "actors/supervisor.hpp"
#include "actors/target_verifier_state.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/device/stream.hpp"
#include "runtime/model/language_model.hpp"
#include "runtime/rounds/draft_runner.hpp"
#include "runtime/rounds/round_runner.hpp"
#include "runtime/scheduling/scheduler_state.hpp"
#include "runtime/speculation/drafters/drafter.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::actors {

/// One drafter of a model, with the objects and limits that the model's states need for it.
struct drafter_seat {
  std::string name;
  speculation::drafter* drafter = nullptr; ///< null for "none" (the first drafter) and "auto" (the last)
  std::uint32_t draft_length = 0;
  std::uint32_t max_tree_nodes = 0; ///< in one round
  paceline::length_rule length_rule = paceline::length_rule::fixed;
  std::optional<pool_number> pool = {};             ///< for a drafter with KV cells of its own
  model::kv_storage* kv = nullptr;                  ///< of `pool`
  std::unique_ptr<device::stream> stream = nullptr; ///< for a drafter that runs in a worker
};

/// The inputs of a model's states and programs. Everything pointed to must outlive them.
struct model_materials {
  const model::language_model* target = nullptr;
  model::kv_storage* kv = nullptr;
  std::unique_ptr<device::stream> stream; ///< the target's
  std::vector<drafter_seat> drafters;     ///< [0] is "none"
  scheduling::scheduler_options limits;   ///< its `drafters` are empty: model_assembly adds them
  std::uint32_t num_pools = 1;            ///< the target's pool and the drafters' pools
  const clock* time = nullptr;
  /// Input vectors of the drafters' probes (`drafter::inputs`), concatenated in the order of the drafters:
  /// [num_inputs][hidden_size], in the memory of the target's device. Null if there are none.
  const float* inputs = nullptr;
  std::uint32_t num_inputs = 0;
};

/// Everything that the actors of one model work on: states, programs and streams. Engines and simulations
/// both use it, so they are assembled in the same way.
class model_assembly {
 public:
  explicit model_assembly(model_materials materials);
  /// Drains the streams, because programs hold references to the other members.
  ~model_assembly();
  model_assembly(const model_assembly&) = delete;
  model_assembly& operator=(const model_assembly&) = delete;

  scheduling::scheduler_state& scheduler() noexcept { return *scheduler_; }
  const scheduling::scheduler_state& scheduler() const noexcept { return *scheduler_; }
  target_verifier_state& verifier() noexcept { return *verifier_; }
  const target_verifier_state& verifier() const noexcept { return *verifier_; }
  /// The states on which the supervisor starts the model's actors.
  model_parts parts();
  /// Abandons all rounds: verify programs that have not begun do nothing. Destroys the streams, which waits
  /// for the end of all programs.
  void drain();

 private:
  /// A draft worker's state and what it needs. The stream is null after `drain`.
  struct worker {
    std::unique_ptr<rounds::draft_runner> runner;
    std::unique_ptr<device::stream> stream;
    std::unique_ptr<draft_worker_state> state;
  };

  std::vector<worker> workers_; ///< by drafter; empty for drafters that run inside the target's programs
  std::unique_ptr<rounds::round_runner> runner_;
  std::unique_ptr<scheduling::scheduler_state> scheduler_;
  std::unique_ptr<device::stream> stream_;
  std::unique_ptr<target_verifier_state> verifier_;
};

/// Largest number of tree nodes of a draft of `length` levels by drafter `index`, within the limits of its
/// seat. For "auto": the maximum over the other drafters, at least `length`. For "none": 0.
std::uint32_t most_nodes(const std::vector<drafter_seat>& drafters, drafter_index index,
                         std::uint32_t length);
/// Largest number of rows of a draft of `length` levels in a pass: its nodes, and the drafter's probes.
std::uint32_t most_rows(const std::vector<drafter_seat>& drafters, drafter_index index, std::uint32_t length);

} // namespace paceline::actors
