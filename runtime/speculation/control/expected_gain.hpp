#pragma once

#include <cstdint>
#include <span>

/// What speculation is expected to bring (Leviathan et al. 2023, section 3), from
///   acceptance  = probability that a draft token is kept, in [0, 1], the same at every place;
///   draft_cost  = time of one drafter step over time of one target step on one row (the paper's c), >= 0;
///   length      = draft tokens a round.
namespace paceline::speculation {

/// The acceptance at one place (theorem 3.5): sum over tokens of min(target_prob, draft_prob). Its mean over
/// places is the paper's alpha. Of equal lengths.
double expected_acceptance(std::span<const double> target_probs,
                           std::span<const double> draft_probs) noexcept;

/// The same by counting: draft tokens kept over draft tokens that a decision was made on, which those behind
/// the first rejection are not. `histogram[j]` = rounds of `histogram.size() - 1` draft tokens in a chain
/// that kept j of them (speculation_stats). 0 where nothing was decided.
double counted_acceptance(std::span<const std::uint32_t> histogram) noexcept;

/// Tokens a round commits on average: 1 + acceptance + ... + acceptance^length (equation 1).
double expected_tokens(double acceptance, std::uint32_t length) noexcept;

/// Factor by which rounds of `length` are faster than plain decoding (theorem 3.8): below 1 they are slower.
/// A target pass over length + 1 rows takes `verify_cost` passes over one row; 1 where memory bandwidth alone
/// decides.
double expected_speed_up(double acceptance, std::uint32_t length, double draft_cost,
                         double verify_cost = 1.0) noexcept;

/// Factor by which arithmetic operations grow (theorem 3.11); `draft_operations` = those of one drafter step
/// over those of one target row.
double operations_factor(double acceptance, std::uint32_t length, double draft_operations) noexcept;

/// The length of the largest expected speed-up, at most max_length; 0 where plain decoding is fastest. Of
/// equals the shortest.
std::uint32_t optimal_length(double acceptance, double draft_cost, std::uint32_t max_length) noexcept;

/// The same with measured times: verify_costs[t] = time of a target pass over t + 1 rows over one of one row.
/// Lengths up to verify_costs.size() - 1 are considered.
std::uint32_t optimal_length(double acceptance, double draft_cost,
                             std::span<const double> verify_costs) noexcept;

/// Factor by which decoding would be faster than plain if it were known of every draft how far it is right,
/// so that each round drafts what pays and no token that is rejected: no rule of length can do better with
/// the same drafts. `histogram[j]` = rounds whose first j draft tokens are right; `verify_costs` as of
/// `optimal_length`, of which at least the first is needed: drafts beyond are not considered.
double oracle_speed_up(std::span<const std::uint64_t> histogram, double draft_cost,
                       std::span<const double> verify_costs) noexcept;

/// Factor by which rounds get shorter when the next draft is made while this one is verified. Times in any
/// unit:
///   verify, draft = of a pass of the target and of a whole draft, one after the other and then together;
///   ready         = probability that the draft made in advance is the one that is needed: acceptance^(length
///   + 1) at
///                   least, if only "everything is accepted" is foreseen;
///   gap           = between the two, when neither computes, without overlap.
/// Otherwise the next draft begins after the verdict.
double overlap_gain(double verify, double draft, double verify_beside, double draft_beside, double ready,
                    double gap = 0) noexcept;

/// Times of a round, in any unit: of a pass of the target and of a whole draft.
struct round_cost {
  double verify = 0, draft = 0;
};

/// Factor by which two groups, one drafted for while the other is verified, are faster than one group of all
/// requests:
///   all         = a round of all requests, one thing after the other;
///   first, last = rounds of the two groups, each while the other group has its turn;
///   gap         = of a round, when neither computes for its requests.
/// Each group has one round in the time that either stream needs for both, and no group is faster than it
/// would be alone. Below 1 where passes over half the requests take much more than half as long: weights are
/// read twice.
double groups_gain(round_cost all, round_cost first, round_cost last, double gap = 0) noexcept;

} // namespace paceline::speculation
