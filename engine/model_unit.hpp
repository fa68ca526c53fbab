#pragma once

#include "actors/model_assembly.hpp"
#include "config/engine_options.hpp"
#include "engine/activity.hpp"
#include "engine/device_set.hpp"
#include "engine/engine.hpp"
#include "engine/loaded_model.hpp"
#include "runtime/kv/pool_manager.hpp"
#include "runtime/speculation/drafters/registry.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace paceline {

/// What a model asks of the pool manager for one of its pools.
struct pool_need {
  std::string name;
  device::compute_device* device = nullptr; ///< the device that holds its blocks
  std::uint64_t cell_bytes = 0;             ///< of one position over all layers
  std::uint64_t wanted_blocks = 0;          ///< for all requests that may run together
  std::uint32_t least_blocks = 0;           ///< for one request of full length
  std::uint64_t state_bytes = 0;            ///< of one slot of a recurrent state; 0: the model has none
  std::uint32_t wanted_state_slots = 0; ///< slots for all requests that may run together, and for snapshots
  std::uint32_t min_state_slots = 0;    ///< for one request without drafts
  bool shares_prefixes = true;          ///< its cells depend on the text only, so requests can share them
};

/// One served model: weights, drafters, KV memory, streams, and the states that its actors work on. Members
/// are in construction order. `states` comes after everything that its programs use, so destruction drains
/// the streams first.
struct model_unit {
  /// Loads target and drafters. Does not allocate KV memory.
  static expected<std::unique_ptr<model_unit>>
  load(const config::model_options& options, device_set& devices,
       const speculation::drafter_registry& registry,
       const std::function<void(const load_progress&)>& progress);

  /// Whether a drafter's stream can compute at the same time as the target's.
  bool drafts_elsewhere() const;

  /// The KV pools that the model needs, by pool number.
  std::vector<pool_need> pool_needs() const;
  /// The target's layers whose hidden states a drafter reads, ascending.
  std::vector<layer_index> taps() const;

  /// Allocates KV memory for the blocks of its pools, and makes streams, programs and state machines.
  void assemble(const config::engine_options& engine, const clock& time,
                const std::vector<kv::pool_config>& pools);

  /// A drafter by name; "default" and "" mean `options.default_drafter`. Error: invalid_argument for an
  /// unknown name.
  expected<drafter_index> find_drafter(const std::string& name) const;
  /// The drafter of a request: the one that it names. A request that names no drafter but has a prediction
  /// gets `prediction`, unless the default is `auto`. Other requests get the default. In place of `auto`, a
  /// beam search gets `none`. Error: that of `find_drafter`.
  expected<drafter_index> drafter_of(const generation_request& request) const;

  config::model_options options;
  std::unique_ptr<loaded_model> target;
  device::compute_device* device = nullptr; ///< of the target
  device::tenant_id tenant;                 ///< tenant id of this model and its drafters on all devices
  std::uint32_t context_length = 0;
  std::uint32_t num_guesses = 0; ///< guessed tokens per draft position in mode `outcomes`; 0: mode not used

  struct drafter_unit {
    config::drafter_options options;
    std::unique_ptr<speculation::drafter> drafter; ///< null for "none" and "auto"
    device::compute_device* device = nullptr; ///< device of its own model; without one, the target's device
    std::optional<pool_number> pool;          ///< of its own model
    std::unique_ptr<model::kv_storage> kv;

    bool is_worker() const { return drafter && drafter->traits().where == speculation::placement::worker; }
  };
  /// The partition of its device on which a drafter's stream runs.
  static std::uint32_t partition_of(const drafter_unit& d) {
    return d.options.partition < d.device->num_partitions() ? d.options.partition : 0;
  }
  std::vector<drafter_unit> drafters; ///< by index; the first "none", the last "auto"
  /// Input vectors of the drafters' probes: float, [num_inputs][hidden_size]. Null: there are none.
  std::unique_ptr<device::buffer> inputs;

  std::unique_ptr<activity> log;
  std::unique_ptr<model::kv_storage> kv;
  std::unique_ptr<actors::model_assembly> states; ///< destroyed first, which drains the streams

 private:
  expected<drafter_unit> load_drafter(const config::drafter_options& wanted, device_set& devices,
                                      const speculation::drafter_registry& registry,
                                      const std::function<void(const load_progress&)>& progress) const;
  /// Positions from one snapshot of the target's recurrent state to the next; 0: the target has no such
  /// state.
  std::uint32_t state_interval() const;
  std::uint32_t most_nodes() const;
  void add_states(pool_need& need) const;
  std::string shortage_of(const kv::pool_config& pool) const;
  /// Number of input vectors of the drafters loaded so far.
  std::uint32_t num_inputs() const;
  void upload_inputs();
  std::vector<pass_time> time_passes(std::chrono::nanoseconds budget, const clock& time) const;
  scheduling::scheduler_options limits_of(const config::engine_options& engine,
                                          const kv::pool_config& pool) const;
  actors::drafter_seat seat_of(const drafter_unit& d) const;
};

} // namespace paceline
