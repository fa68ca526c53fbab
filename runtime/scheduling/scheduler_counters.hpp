#pragma once

#include "runtime/scheduling/round.hpp"

#include <chrono>
#include <cstdint>
#include <vector>

namespace paceline::scheduling {

/// Counters since the scheduler's start.
struct scheduler_counters {
  /// `num_admitted` counts a request again when it comes back after a preemption. `num_preemptions` includes
  /// requests that gave up their place for lack of credit.
  std::uint64_t num_admitted = 0, num_preemptions = 0, num_queue_full = 0, num_device_losses = 0;
  std::uint64_t finished_stop = 0, finished_length = 0, finished_cancelled = 0, finished_error = 0;
  std::uint64_t prompt_tokens = 0, cached_prompt_tokens = 0, generation_tokens = 0;
  /// `num_rollbacks`: verified drafts with tokens that were not accepted; `rolled_back_tokens`: these tokens.
  std::uint64_t num_rounds = 0, num_rollbacks = 0, rolled_back_tokens = 0, stale_drafts = 0;
  struct drafter {
    std::uint64_t num_rounds = 0, num_draft_tokens = 0, num_accepted_tokens = 0;
    /// Rounds, counted for each request, for which at least one draft was made while the previous round was
    /// being verified.
    std::uint64_t num_foreseen = 0;
    std::uint64_t num_ready = 0; ///< of these, rounds in which one of these drafts could be used
    std::vector<std::uint64_t> accepted_per_position;
    std::uint64_t num_failures = 0; ///< rounds in which the drafter failed
  };
  std::vector<drafter> drafters;
  std::uint64_t num_decoding_rounds = 0; ///< rounds without prompt rows
  round_times decoding;                  ///< sums over these rounds
  struct passes {
    std::uint64_t num = 0;
    std::chrono::nanoseconds duration{}; ///< of the pass and the decisions, summed over these rounds
  };
  /// [rows - 1]: decoding rounds by number of rows, from which V(T) is computed
  std::vector<passes> decoding_by_rows;
  struct drafted_rounds {
    std::uint64_t num = 0;
    /// Durations of the rounds' programs on their streams.
    std::chrono::nanoseconds verification{}, drafting{};
  };
  /// [requests - 1]: decoding rounds in which one worker drafted for every request after the verdict.
  std::vector<drafted_rounds> drafted_by_requests;
  std::chrono::nanoseconds prompts{}; ///< total duration of rounds with prompt rows
};

} // namespace paceline::scheduling
