#pragma once

#include <cstdint>
#include <span>

/// The expected gain of speculation (Leviathan et al. 2023, section 3), from
///   acceptance  = probability that a draft token is kept, in [0, 1], the same at every position;
///   draft_cost  = time of one drafter step over time of one target step on one row (the paper's c), >= 0;
///   length      = draft tokens in a round.
namespace paceline::speculation {

/// The acceptance at one position (theorem 3.5): sum over tokens of min(target_prob, draft_prob). Its mean
/// over positions is the paper's alpha. Both spans must have the same length.
double expected_acceptance(std::span<const double> target_probs,
                           std::span<const double> draft_probs) noexcept;

/// The acceptance by counting: kept draft tokens over draft tokens that were decided on. Tokens after the
/// first rejection were not decided on. `histogram[j]`: number of rounds with chains of
/// `histogram.size() - 1` draft tokens that kept j of them (speculation_stats). 0 if nothing was decided.
double counted_acceptance(std::span<const std::uint32_t> histogram) noexcept;

/// Mean number of tokens committed in a round: 1 + acceptance + ... + acceptance^length (equation 1).
double expected_tokens(double acceptance, std::uint32_t length) noexcept;

/// Speed of decoding with drafts of `length` tokens relative to plain decoding (theorem 3.8); below 1 it is
/// slower. A target pass over length + 1 rows takes `verify_cost` passes over one row; 1 if only memory
/// bandwidth matters.
double expected_speed_up(double acceptance, std::uint32_t length, double draft_cost,
                         double verify_cost = 1.0) noexcept;

/// Factor by which the number of arithmetic operations grows (theorem 3.11). `draft_operations`: operations
/// of one drafter step divided by the operations of one target row.
double operations_factor(double acceptance, std::uint32_t length, double draft_operations) noexcept;

/// The length with the largest expected speed-up, at most max_length; the shortest one if several are equal;
/// 0 if plain decoding is fastest.
std::uint32_t optimal_length(double acceptance, double draft_cost, std::uint32_t max_length) noexcept;

/// The same with measured times: verify_costs[t] = time of a target pass over t + 1 rows, divided by the
/// time of a pass over one row. Considers lengths up to verify_costs.size() - 1.
std::uint32_t optimal_length(double acceptance, double draft_cost,
                             std::span<const double> verify_costs) noexcept;

/// Speed relative to plain decoding of an oracle that knows how far each draft is right: each round drafts as
/// many of the right tokens as pays, and no token that would be rejected. No length rule can be better with
/// the same drafts. `histogram[j]`: number of rounds whose drafts have exactly j right tokens at the start.
/// `verify_costs` as for `optimal_length`; drafts longer than verify_costs.size() - 1 are not considered.
double oracle_speed_up(std::span<const std::uint64_t> histogram, double draft_cost,
                       std::span<const double> verify_costs) noexcept;

/// Factor by which rounds get shorter when the next draft is made while this one is verified. Times in any
/// unit:
///   verify, draft = times of a pass of the target and of a whole draft that run one after the other;
///   ..._beside    = the same times if both run together;
///   ready         = probability that the draft made in advance is the one that is needed. If only the
///                   outcome "everything is accepted" is foreseen, it is at least acceptance^(length + 1);
///   gap           = without overlap, the time between pass and draft in which neither computes.
/// If the draft made in advance is not the one needed, the next draft begins after the verdict.
double overlap_gain(double verify, double draft, double verify_beside, double draft_beside, double ready,
                    double gap = 0) noexcept;

/// Times of the parts of a round, in any unit: a pass of the target, and a whole draft.
struct round_cost {
  double verify = 0, draft = 0;
};

/// Factor by which two groups are faster than one group of all requests. One group is drafted for while the
/// other one is verified.
///   all         = a round of all requests, draft and pass one after the other;
///   first, last = rounds of the two groups, each running beside the other group's;
///   gap         = the time in a round in which neither stream computes for its requests.
/// With two groups, each group completes a round in the longest of these times: the two passes together, the
/// two drafts together, or one group's draft, pass and gap. The factor is below 1 if a pass over half the
/// requests takes much more than half as long, because the weights are then read twice.
double groups_gain(round_cost all, round_cost first, round_cost last, double gap = 0) noexcept;

} // namespace paceline::speculation
