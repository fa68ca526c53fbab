#pragma once

#include "apps/commands/local_engine.hpp"
#include "engine/snapshot.hpp"
#include "runtime/base/ids.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace paceline::apps::bench {

/// One way of decoding that is compared with others.
struct arm {
  std::string drafter;
  std::optional<std::uint32_t> draft_length = {}; ///< none: the drafter's own
  std::optional<overlap_wish> overlap = {};       ///< none: as the engine chooses
  std::string name() const;
};

/// How the prompts of a workload are run.
struct run_settings {
  std::uint32_t concurrency = 1; ///< requests at the same time
  std::uint32_t max_tokens = 128;
  float temperature = 0;
  std::uint64_t seed = 1;
};

/// What one arm did over a workload.
struct arm_figures {
  std::vector<double> rates;          ///< tokens per second, one a group of requests
  std::vector<double> speed_ups;      ///< against the first arm's run of the same group
  std::vector<double> first_token;    ///< seconds from submission
  std::vector<double> gaps;           ///< seconds between a request's events
  std::uint64_t num_full_periods = 0; ///< of those: while all requests of its group decoded
  double full_period_seconds = 0;
  std::uint64_t num_tokens = 0, num_draft_tokens = 0, num_accepted_tokens = 0;
  std::uint64_t num_rounds = 0;                    ///< that verified draft tokens
  std::uint64_t num_full_rounds = 0;               ///< of those: accepted all of them
  std::vector<std::uint64_t> acceptance_histogram; ///< [j] = rounds that accepted exactly j draft tokens
  std::uint32_t num_different = 0;                 ///< requests whose tokens are not the first arm's
  double wall_seconds = 0;
  bool rates_count_prompts = false; ///< several requests at the same time
  model_counters spent;             ///< what its runs added to the counters

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

/// The prompts of a workload file, as tokens: JSON lines, each with "messages" or "prompt".
expected<std::vector<std::vector<token_id>>> read_workload(const std::string& path, std::uint32_t most,
                                                           std::uint32_t max_tokens,
                                                           const served_model& model);

/// Every group of prompts with every arm before the next group, in an order that turns with group and seed.
/// Progress on standard error unless `quiet`.
expected<std::vector<arm_figures>> measure(engine& runtime, std::span<const arm> arms,
                                           const run_settings& settings,
                                           std::span<const std::vector<token_id>> prompts, bool quiet);

} // namespace paceline::apps::bench
