#pragma once

#include "apps/bench/door.hpp"
#include "engine/snapshot.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace paceline::apps::bench {

/// One configuration that a bench compares with others: a drafter, its options, and the interface through
/// which requests are sent.
struct arm {
  std::string drafter;
  std::optional<std::uint32_t> draft_length = {}; ///< nullopt: the drafter's own
  std::optional<overlap_request> overlap = {};    ///< nullopt: the engine chooses
  door_kind through = door_kind::http;
  std::string name() const; ///< without the interface
};

/// How the prompts of a workload are run.
struct run_settings {
  std::uint32_t concurrency = 1; ///< requests at the same time
  std::uint32_t max_tokens = 128;
  float temperature = 0;
  std::uint64_t seed = 1;
  /// Number of groups of prompts. A group has `concurrency` requests and is run with every arm. If there are
  /// too few prompts, they are used again. 0: each prompt is used once.
  std::uint32_t pairs = 0;
  bool trace = false; ///< count rounds as well as events; makes events larger
};

/// Results of one arm over a workload; times are by the client's clock.
struct arm_figures {
  /// Tokens per second over whole requests, one value for each group. The time of a group begins when its
  /// first request is sent and ends with the last reply.
  std::vector<double> rates;
  std::vector<double> speed_ups; ///< relative to the first arm's run of the same group
  /// Tokens per second of decoding, one value for each group: the sum over its requests. The rate of a
  /// request counts its tokens after the first event with tokens, and the time from that event to the
  /// last one. Groups in which a reply came in a single read have no value.
  std::vector<double> decode_rates;
  std::vector<double> first_token; ///< seconds from sending a request to its first event with tokens
  std::vector<double> gaps;        ///< seconds between a request's successive events with tokens
  /// For each event with tokens: seconds from the end of a target program until the client has read the
  /// event. The program is the last one that ended before the client had read it. It is the program that
  /// committed the tokens, unless the event took longer than a round to arrive.
  std::vector<double> commit_to_client;
  std::uint64_t num_events = 0;        ///< with tokens
  std::uint64_t num_traced_rounds = 0; ///< rounds that committed tokens; 0 without trace
  /// Number of intervals between successive events with tokens of a request, over all requests. Counted only
  /// while all requests of a group decode: from the time at which each of them has had three such events to
  /// the last event of the request that ends first.
  std::uint64_t num_full_periods = 0;
  double full_period_seconds = 0; ///< sum of these intervals
  std::uint64_t num_tokens = 0, num_draft_tokens = 0, num_accepted_tokens = 0;
  std::uint64_t num_rounds = 0;                    ///< that verified draft tokens
  std::uint64_t num_full_rounds = 0;               ///< of those: rounds that accepted the whole draft
  std::vector<std::uint64_t> acceptance_histogram; ///< [j] = rounds that accepted exactly j draft tokens
  std::uint32_t num_different = 0;                 ///< requests whose reply differs from the first arm's
  double wall_seconds = 0;
  /// How much the model's counters grew in the arm's runs. Counters that no bench uses stay 0.
  model_counters spent;

  double acceptance_rate() const; ///< accepted over verified draft tokens
  /// Share of accepted tokens among the draft tokens whose predecessors in the draft were accepted: alpha of
  /// Leviathan et al. 2023, section 3.
  double alpha() const;
  double acceptance_length() const; ///< mean of committed tokens in a round that verified draft tokens
  /// Mean seconds of the intervals of `num_full_periods`; 0 if there were none.
  double period() const;
  /// Share of rounds, among those with drafts made in advance, in which one of these drafts was for the
  /// actual verdict. Counted for each request; 0 if there were none.
  double ready_share() const;
  /// Share of rounds that accepted draft token `position` (from 0), among those that verified draft tokens.
  double accepted_at(std::uint32_t position) const;
};

/// Runs every group of prompts with every arm before the next group. The order of the arms is reversed if
/// the group's number (from 0) plus the seed is even. `doors` must contain the interfaces of all arms.
/// Reports progress on standard error unless `quiet`.
expected<std::vector<arm_figures>> measure(engine& runtime, const door_set& doors, std::span<const arm> arms,
                                           const run_settings& settings,
                                           std::span<const workload_prompt> prompts, bool quiet);

/// The rates of `with` divided by the rates of `base`, group by group.
std::vector<double> ratios(const arm_figures& with, const arm_figures& base);

} // namespace paceline::apps::bench
