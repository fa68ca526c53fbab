#pragma once

#include "runtime/base/request.hpp"
#include "runtime/speculation/control/pass_cost.hpp"

#include <cstdint>
#include <functional>
#include <span>

namespace paceline::speculation {

/// The largest number of rows that a draft of this many levels adds to the pass: its nodes, and its probes.
using rows_of_levels = std::function<std::uint32_t(std::uint32_t levels)>;

/// The number of levels in the next draft of one request, from the outcome of earlier ones: rules `fixed`,
/// `heuristic` and `optimal`. (For `entropy` see entropy_length. Drafter `auto` uses draft_controller
/// instead.) Every rule uses earlier rounds only, so no rule changes the distribution of the output.
class draft_length {
 public:
  /// `most` is the upper bound; `fixed` always returns it; the other rules start with it.
  draft_length(length_rule rule, std::uint32_t most) noexcept : rule_(rule), most_(most), now_(most) {}

  length_rule rule() const noexcept { return rule_; }

  /// A round verified a draft of `num_levels` >= 1 levels and kept a path of `num_accepted` tokens. `size`:
  /// number of the draft's rows, divided by that of the largest draft with as many levels.
  void on_verified(std::uint32_t num_levels, std::uint32_t num_accepted, double size = 1.0) noexcept;

  /// The number of levels of the next draft. `draft_cost`: time of one level of drafts, for all requests that
  /// draft together, divided by the time of a pass over one row. `num_requests`: number of requests in the
  /// pass, which are assumed to draft equally many tokens. `rows`: rows of a draft of the request's drafter;
  /// empty if it drafts chains. Drafters that look tokens up rarely fill their largest tree, so the number of
  /// rows is scaled by the size that the request's drafts had. Rule `optimal` returns 0 if drafting does not
  /// pay. Even then, in one of every `rounds_a_look` rounds it drafts a token to notice an improvement.
  std::uint32_t next(const pass_cost& cost, double draft_cost, std::uint32_t num_requests,
                     const rows_of_levels& rows = {}) noexcept;

  /// Recent probability that a token is kept if the previous one was (rule `optimal`).
  double acceptance() const noexcept { return kept_ / tried_; }

 private:
  static constexpr std::uint32_t rounds_a_look = 64;

  length_rule rule_;
  std::uint32_t most_;
  std::uint32_t now_;
  std::uint32_t num_plain_ = 0;
  double kept_ = 3.0;  ///< decayed count of kept tokens; starts as if 3 of 4 tokens had been kept
  double tried_ = 4.0; ///< decayed count of tokens that were decided on
  double size_ = 1.0;  ///< moving average of the sizes of drafts
};

/// Rule `entropy` (EGAG): the more uncertain a drafter is of the next token, the fewer tokens it drafts. The
/// length falls linearly from `most` at normalised entropy 0 to `least` at 1. The entropy is smoothed over
/// rounds; `smoothing` is the weight of the past. It is computed before a token is drawn, so the length does
/// not depend on the drawn tokens.
class entropy_length {
 public:
  entropy_length(std::uint32_t least, float smoothing) noexcept : least_(least), smoothing_(smoothing) {}

  /// `normalised`: entropy of the first draft token's distribution divided by the logarithm of the
  /// vocabulary's size, in [0, 1]. `most`: upper bound in this round.
  std::uint32_t next(double normalised, std::uint32_t most) noexcept;

 private:
  std::uint32_t least_;
  float smoothing_;
  double smoothed_ = -1; ///< below 0: no observation yet
};

/// Entropy of softmax(scores) over log(scores.size()); scores of -infinity have probability 0. In [0, 1].
double normalised_entropy(std::span<const float> scores) noexcept;

} // namespace paceline::speculation
