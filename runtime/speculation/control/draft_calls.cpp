#include "runtime/speculation/control/draft_controller.hpp"

#include <algorithm>
#include <utility>

// Decides which in-line candidates are called in a round.

namespace paceline::speculation {

namespace {

/// If the calls of an in-line candidate take at most this share of a pass, it is called in every round. Other
/// candidates are called less often after `patience` calls in vain, but at least once in `most_skipped`
/// rounds.
constexpr double cheap_share = 0.001;
constexpr std::uint32_t patience = 4, most_skipped = 64;

} // namespace

/// The share of a pass that calls of candidate `candidate` take, with one call for each of `num_requests`.
double draft_controller::share_of_pass(std::uint32_t candidate, std::uint32_t num_requests) const {
  const double pass = cost_.time(num_requests);
  return pass > 0 ? proposing_[candidate].nanoseconds * num_requests / pass : 0;
}

bool draft_controller::begin_call(draft_history& history, std::uint32_t candidate,
                                  std::uint32_t num_requests) const {
  history.calls_.resize(tables_.size());
  auto& one = history.calls_[candidate];
  one.asked = one.num_to_skip == 0;
  if (!one.asked) {
    --one.num_to_skip;
    return false;
  }
  if (one.num_vain < patience) return true;
  const double share = share_of_pass(candidate, num_requests);
  const auto most = static_cast<std::uint32_t>(std::min<double>(most_skipped, share / cheap_share));
  one.num_to_skip = std::min(most, 1U << std::min(one.num_vain - patience, 16U));
  return true;
}

/// A call is in vain if its draft was not taken, or if the draft gained less than the call took.
void draft_controller::note_calls(request_choice& one, const pass_load& load) const {
  const auto rate_of = [&](const option& o) { return (load.num_requests - 1 + o.tokens) / o.cost; };
  double next_best = load.num_requests / cost_.ratio(load.num_requests), chosen = 0;
  double next_alike = next_best, chosen_alike = 0;
  for (const auto& o : one.options)
    if (o.candidate == one.candidate)
      chosen = rate_of(o), chosen_alike = o.alike;
    else
      next_best = std::max(next_best, rate_of(o)), next_alike = std::max(next_alike, o.alike);
  auto& calls = one.history->calls_;
  for (std::uint32_t c = 0; c < calls.size(); ++c) {
    if (!std::exchange(calls[c].asked, false) || one.proposals[c].catching_up) continue;
    const bool taken = one.chosen.num_rows() > 0 && one.candidate == c;
    // The draft of one request must be worth the call for that request, or the drafts of all requests their
    // calls.
    const double of_all = share_of_pass(c, load.num_requests), of_one = of_all / load.num_requests;
    const bool pays =
        taken && (chosen > next_best * (1 + of_one) || chosen_alike > next_alike * (1 + of_all));
    if (pays) calls[c].num_to_skip = 0;
    calls[c].num_vain = pays ? 0 : calls[c].num_vain + 1;
  }
}

void draft_controller::observe_proposing(std::uint32_t candidate, std::uint32_t num_requests,
                                         double nanoseconds) noexcept {
  if (num_requests > 0) proposing_.at(candidate).observe(nanoseconds / num_requests);
}

} // namespace paceline::speculation
