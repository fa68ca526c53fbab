#pragma once

#include "actors/model_assembly.hpp"
#include "runtime/model/hash_model.hpp"
#include "tests/support/simulated_device.hpp"

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

/// The real actors on CAF's test coordinator, with a hash model and a device in virtual time: the engine
/// without threads, so that a run is a function of its seed.
namespace paceline::test {

/// A drafter of a simulation. Runs in its own worker if its traits say so.
struct simulated_drafter {
  std::unique_ptr<speculation::drafter> drafter;
  std::uint32_t draft_length = 4;
  std::uint32_t partition = 0;
  std::uint32_t max_tree_nodes = 64;
};

struct simulation_options {
  std::uint64_t seed = 1;
  /// Deliver messages and completions in a random order (FIFO between two actors is kept).
  bool shuffle = false;
  bool two_groups = false;
  std::vector<ahead_mode> overlap{ahead_mode::off};
  std::uint32_t num_guesses = 1;
  std::uint32_t num_partitions = 1;
  std::uint32_t block_size = 4;
  std::uint32_t num_blocks = 512;
  std::uint32_t context_length = 256;
  std::uint32_t max_running = 8;
  std::uint32_t max_waiting = 256;
  std::uint32_t max_restarts = 1000;
  bool prefix_cache = true;
  /// With `target.recurrent`: slots of states, and positions from one kept state to the next.
  std::uint32_t num_state_slots = 512;
  std::uint32_t state_interval = 8;
  /// If not 0, the last drafter is "auto", which chooses among the in-line ones.
  std::uint32_t auto_draft_length = 0;
  std::chrono::nanoseconds max_gap{std::chrono::milliseconds(200)};
  std::chrono::nanoseconds round_timeout{std::chrono::minutes(5)};
  model::hash_model_config target;
  /// Duration of a pass of the target over `rows` rows.
  std::function<std::chrono::nanoseconds(std::uint64_t rows)> target_cost = [](std::uint64_t rows) {
    return std::chrono::microseconds(3000 + 100 * rows);
  };
};

/// What a client received.
struct simulated_client {
  std::vector<token_id> tokens;
  std::vector<time_point> arrivals; ///< time of each event with tokens
  std::vector<round_trace> rounds;  ///< of a request that is traced
  finish_reason finish = finish_reason::none;
  std::optional<error> failure;
  std::optional<speculation_stats> speculation;
  std::vector<beam_hypothesis> hypotheses;
  std::uint32_t num_cached = 0;
  std::uint32_t num_ends = 0; ///< final events
  bool gap = false;           ///< an event did not continue the previous one
};

class simulation {
 public:
  explicit simulation(simulation_options options, std::vector<simulated_drafter> drafters = {});
  ~simulation();
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;

  /// `drafters` are numbered from 1. Returns the client's number.
  std::size_t submit(generation_request request, drafter_index drafter = plain_decoding,
                     std::uint64_t credit = 1U << 30);
  void cancel(std::size_t client);
  void grant(std::size_t client, std::uint64_t tokens);
  /// Ends an actor as a crash would: "scheduler/0", "target_verifier/0", "draft_worker/0/1", "kv_pool",
  /// "fan_out"; "session/0" that of client 0.
  void kill(const std::string& actor);
  /// Delivers one message or one completion. False if nothing is left to do.
  bool step();
  /// Steps until every request has ended; false if that takes more than `max_steps`.
  bool run(std::size_t max_steps = 2'000'000);

  const simulated_client& client(std::size_t i) const { return *clients_.at(i).seen; }
  std::size_t num_clients() const { return clients_.size(); }
  const scheduling::scheduler_state& scheduler() const { return states_->scheduler(); }
  const kv::pool_manager& pools() const { return *pools_; }
  simulated_device& device() { return *device_; }
  const model::hash_model& target() const { return *target_; }
  bool healthy() const { return where_->healthy(); }
  std::map<actors::part, actors::fault_book::entry> faults() const { return where_->faults()->all(); }
  std::uint64_t num_restarts(const std::string& actor) { return where_->meter(actor)->num_restarts.load(); }
  std::uint64_t mailbox_depth(const std::string& actor) { return where_->meter(actor)->mailbox_depth.load(); }
  /// Violated invariants of all state machines; empty if all hold.
  std::string check_invariants() const;

 private:
  struct unit;
  struct client_entry {
    std::shared_ptr<simulated_client> seen;
    protocol::session_actor session;
    request_id id;
  };
  bool run_one_message();
  /// Finishes what is still running after the last request; false if it does not end.
  bool settle(std::size_t max_steps);
  void start_actors();

  simulation_options options_;
  std::mt19937_64 random_;
  std::unique_ptr<caf::actor_system_config> configuration_;
  std::unique_ptr<caf::actor_system> system_;
  caf::scheduler::test_coordinator* coordinator_ = nullptr;
  std::unique_ptr<simulated_device> device_;
  std::unique_ptr<model::hash_model> target_;
  std::unique_ptr<model::language_model> metered_;
  std::unique_ptr<model::kv_storage> kv_;
  std::vector<float> inputs_; ///< of the drafters' look-ahead rows
  std::vector<simulated_drafter> drafters_;
  std::vector<std::unique_ptr<model::kv_storage>> drafter_kv_;
  std::unique_ptr<kv::pool_manager> pools_;
  std::unique_ptr<actors::kv_pool_state> pool_state_;
  std::shared_ptr<actors::session_registry> sessions_ = std::make_shared<actors::session_registry>();
  std::shared_ptr<actors::directory> where_;
  std::unique_ptr<actors::model_assembly> states_;
  actors::supervisor_actor supervisor_;
  std::vector<client_entry> clients_;
};

/// `inner` with another placement.
std::unique_ptr<speculation::drafter> placed(std::unique_ptr<speculation::drafter> inner,
                                             speculation::placement where);

} // namespace paceline::test
