#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paceline {

class engine;

/// What one drafter did since the engine started.
struct drafter_counters {
  std::string name;
  /// How often a draft of its tokens was verified: counted once for each request and round.
  std::uint64_t num_rounds = 0;
  std::uint64_t num_draft_tokens = 0;
  std::uint64_t num_accepted_tokens = 0;
  /// [j] = number of verified drafts of which more than j tokens were accepted.
  std::vector<std::uint64_t> accepted_per_position;
  /// How often a draft was made in advance for a request while its round was verified: counted once for each
  /// request and round.
  std::uint64_t num_foreseen = 0;
  std::uint64_t num_ready = 0;    ///< how often one of these drafts was for the actual verdict
  std::uint64_t num_failures = 0; ///< failures of the drafter itself; the rounds ran without its draft
  std::string last_failure;       ///< reason of the last failure
};

/// State of one KV pool.
struct pool_gauges {
  std::string name;                      ///< of its model or drafter
  std::uint64_t num_blocks = 0;          ///< the sum of the next four
  std::uint64_t active_blocks = 0;       ///< leased to requests
  std::uint64_t cached_blocks = 0;       ///< leased to no request, but kept in the prefix cache
  std::uint64_t deferred_blocks = 0;     ///< released, but programs of their stream may still use them
  std::uint64_t free_blocks = 0;         ///< not in use, including those that have no memory at present
  std::uint64_t prefix_query_tokens = 0; ///< tokens looked up in the prefix cache, since start
  std::uint64_t prefix_hit_tokens = 0;   ///< tokens looked up that the cache had, since start
  std::uint64_t num_evictions = 0;       ///< blocks evicted from the prefix cache, since start
  std::uint64_t num_state_slots = 0;     ///< slots of recurrent states: the sum of the next three
  std::uint64_t held_state_slots = 0;    ///< leased to requests, or in use by programs that still run
  std::uint64_t idle_snapshots = 0;      ///< states kept in the prefix cache and leased to no request
  std::uint64_t free_state_slots = 0;
};

/// State of one actor.
struct actor_gauges {
  std::string name;
  std::uint64_t mailbox_depth = 0; ///< messages in the mailbox when the actor last took one
  std::uint64_t num_messages = 0;  ///< handled
  std::uint64_t num_restarts = 0;
  bool is_lost = false; ///< it failed too often and is not restarted
};

/// A part of the engine that failed.
struct engine_fault {
  std::string part;      ///< "target_verifier/0", "draft_worker/0/1", "drafter/0/1", "fan_out"
  std::string model;     ///< the model that the part serves; empty: it serves all models
  std::string drafter;   ///< name, if the part is a draft worker or drafter
  std::string reason;    ///< of the last failure, or of the loss
  std::uint64_t num = 0; ///< number of failures, except those that a restart repaired
  bool is_lost = false;  ///< the part does not work until the engine is started again
};

/// Passes with the same number of rows.
struct pass_counters {
  std::uint64_t num_passes = 0;
  double seconds = 0; ///< of the passes and of the decisions after them
};

/// Rounds with the same number of requests and without prompt rows, in which one draft worker drafted for
/// every request. Not counted: rounds that used a draft made in advance, and rounds in which the drafter had
/// to read more than the tokens of the previous round.
struct drafted_round_counters {
  std::uint64_t num_rounds = 0;
  double verify_seconds = 0; ///< of the verify programs: drafts collected, pass, decisions
  double draft_seconds = 0;  ///< of the worker's programs
};

/// Counters (since start) and gauges (now) of one model and everything that serves it.
struct model_counters {
  std::string name;
  /// Whether the target is strict: the results of a row have the same bits whatever other rows are in the
  /// pass.
  bool is_strict = true;
  /// The scheduler or the KV pool did not answer in time, so the figures are the last known ones.
  bool is_late = false;
  bool is_out_of_service = false; ///< a part that the model needs is lost: every request is refused
  std::uint64_t num_running = 0;
  std::uint64_t num_waiting = 0;
  std::uint64_t num_admitted = 0;
  std::uint64_t num_preemptions = 0;
  std::uint64_t num_rejections_queue_full = 0;
  std::uint64_t num_device_losses = 0; ///< how often a round did not return within its timeout
  std::uint64_t finished_stop = 0, finished_length = 0, finished_cancelled = 0, finished_error = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_prompt_tokens = 0;
  std::uint64_t generation_tokens = 0;
  std::uint64_t num_rounds = 0;
  std::uint64_t num_rollbacks = 0;      ///< verified drafts of which at least one token was not accepted
  std::uint64_t rolled_back_tokens = 0; ///< verified draft tokens that were not accepted
  std::uint64_t stale_drafts = 0;       ///< drafts dropped because their base length was no longer current
  // Rounds without prompt rows, and their times.
  std::uint64_t num_decoding_rounds = 0;       ///< rounds without prompt rows
  double draft_seconds = 0;                    ///< time of in-line drafters and of the choice among drafts
  double pass_seconds = 0;                     ///< time of the target's passes in those rounds
  double decide_seconds = 0;                   ///< time of sampling, verification and commit in those rounds
  std::vector<pass_counters> decoding_by_rows; ///< [rows - 1], of the same rounds
  std::vector<drafted_round_counters> drafted_by_requests; ///< [requests - 1], of the same rounds
  double prompt_seconds = 0;                               ///< of the rounds with prompt rows
  double target_busy_seconds = 0;                          ///< of the target's stream
  double draft_busy_seconds = 0;
  double overlap_seconds = 0; ///< time in which the target's stream and a draft stream were both busy
  // Steps of all streams of the target's device, by the device's own clock (device::step_times). 0 on CPUs.
  std::uint64_t num_device_steps = 0;
  double device_busy_seconds = 0;
  double device_launching_seconds = 0;
  std::vector<drafter_counters> drafters;
  std::vector<pool_gauges> pools;
};

/// All figures of an engine at one time.
struct engine_snapshot {
  std::vector<model_counters> models;
  std::vector<actor_gauges> actors;
};

/// Waits until no request of any model runs or waits, and returns the figures of that time. Blocks as long as
/// requests keep arriving. In contrast, `engine::snapshot` may lack the last round of a request whose client
/// already has the last event: the scheduler counts that round later.
engine_snapshot snapshot_at_rest(const engine& runtime);

} // namespace paceline
