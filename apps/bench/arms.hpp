#pragma once

#include "apps/bench/door.hpp"
#include "engine/snapshot.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace paceline::apps::bench {

/// One way of decoding, through one door, that is compared with others.
struct arm {
  std::string drafter;
  std::optional<std::uint32_t> draft_length = {}; ///< none: the drafter's own
  std::optional<overlap_request> overlap = {};    ///< none: as the engine chooses
  door_kind through = door_kind::http;
  std::string name() const; ///< without the door
};

/// How the prompts of a workload are run.
struct run_settings {
  std::uint32_t concurrency = 1; ///< requests at the same time
  std::uint32_t max_tokens = 128;
  float temperature = 0;
  std::uint64_t seed = 1;
  std::uint32_t pairs =
      0;              ///< groups of requests, the file's prompts taken again as needed; 0: once through it
  bool trace = false; ///< count rounds beside events; makes events larger
};

/// What one arm did over a workload, times by the client's clock.
struct arm_figures {
  /// Tokens per second over whole requests, one a group: from the moment the first was sent to the end of the
  /// last reply.
  std::vector<double> rates;
  std::vector<double> speed_ups; ///< against the first arm's run of the same group
  /// Tokens per second behind the first event with tokens, to the last one: summed over a group's requests.
  /// Of groups whose replies came in two events at least.
  std::vector<double> decode_rates;
  std::vector<double> first_token; ///< seconds from sending a request to its first event with tokens
  std::vector<double> gaps;        ///< seconds between a request's events with tokens
  /// Seconds from the end of the target's program that an event's tokens come from, which commits them, to
  /// the client that has read the event. One event more than a round late counts from a later round's end.
  std::vector<double> commit_to_client;
  std::uint64_t num_events = 0;        ///< with tokens
  std::uint64_t num_traced_rounds = 0; ///< that committed tokens; 0 without trace
  std::uint64_t num_full_periods = 0;  ///< of those: while all requests of its group decoded
  double full_period_seconds = 0;
  std::uint64_t num_tokens = 0, num_draft_tokens = 0, num_accepted_tokens = 0;
  std::uint64_t num_rounds = 0;                    ///< that verified draft tokens
  std::uint64_t num_full_rounds = 0;               ///< of those: accepted all of them
  std::vector<std::uint64_t> acceptance_histogram; ///< [j] = rounds that accepted exactly j draft tokens
  std::uint32_t num_different = 0;                 ///< requests whose tokens are not the first arm's
  double wall_seconds = 0;
  model_counters spent; ///< what its runs added to the counters

  double acceptance_rate() const; ///< accepted draft tokens over verified ones
  /// Share of the draft tokens, among those whose predecessors were accepted, that were: the literature's
  /// alpha.
  double alpha() const;
  double acceptance_length() const; ///< tokens a round with drafts
  /// Mean seconds from round to round of a request while all requests of its group decoded; 0 if there was no
  /// such time.
  double period() const;
  /// Share of the drafts made ahead of a verdict that it was the one for; 0 if there were none.
  double ready_share() const;
  /// Share of the rounds with drafts whose token number `position` was accepted.
  double accepted_at(std::uint32_t position) const;
};

/// Every group of prompts with every arm before the next group, in an order that turns with group and seed.
/// `doors` has those of all arms. Progress on standard error unless `quiet`.
expected<std::vector<arm_figures>> measure(engine& runtime, const door_set& doors, std::span<const arm> arms,
                                           const run_settings& settings,
                                           std::span<const workload_prompt> prompts, bool quiet);

/// Ratios of `with`'s rates to those of `base`, group by group.
std::vector<double> ratios(const arm_figures& with, const arm_figures& base);

} // namespace paceline::apps::bench
