#include "runtime/speculation/control/probe_choice.hpp"

#include <algorithm>

namespace paceline::speculation {

namespace {

/// Probes must promise this much more, as a share, before they are begun with: estimates err.
constexpr double margin = 0.02;
constexpr double look_share = 0.01; ///< of the time
/// A look is given up if it promises less than this share of what there is without probes: after a few
/// rounds, and later.
constexpr std::uint32_t few_samples = 4, more_samples = 12;
constexpr double hopeless = 0.8;
/// Every so many rounds with probes there are some without, long enough that what drafts are without them is
/// seen.
constexpr std::uint64_t rounds_a_pause = 2400;
constexpr std::uint32_t pause_rounds = 12;
/// Least weight of the newest round in the mean of one request, and of all.
constexpr double request_weight = 0.1, common_weight = 0.02;

void move(double& mean, double sample, double weight) { mean += weight * (sample - mean); }

/// Of a round of one request that carries its probes, in passes over one row.
double look_cost(probe_choice::offer one, std::uint32_t num_lanes, const pass_cost& cost) {
  return cost.ratio(num_lanes + one.num_probes) - cost.ratio(num_lanes);
}

double weight_of(std::uint32_t num_samples, double least) { return std::max(least, 1.0 / num_samples); }

} // namespace

std::uint8_t probe_history::warmth(std::uint32_t candidate) const noexcept {
  if (candidate >= candidates_.size()) return 0;
  const auto num_rounds = candidates_[candidate].num_rounds;
  return num_rounds == 0 ? 0 : num_rounds < probe_choice::warm_rounds ? 1 : 2;
}

double probe_choice::promise(const probe_history& request, offer one, std::uint32_t num_lanes,
                             const pass_cost& cost) const {
  double gain = known_[one.candidate].gain, nodes = known_[one.candidate].nodes;
  std::uint32_t num_samples = known_[one.candidate].num_samples;
  if (one.candidate < request.candidates_.size() && request.candidates_[one.candidate].num_samples > 0) {
    const auto& own = request.candidates_[one.candidate];
    gain = own.gain, nodes = own.nodes, num_samples = own.num_samples;
  }
  if (num_samples == 0) return 0;
  const auto rows = static_cast<std::uint32_t>(num_lanes * (1 + one.num_probes + nodes) + 0.5);
  return num_lanes * (1 + gain) / cost.ratio(rows);
}

/// Passes over one row that a look at `candidate` may cost now.
double probe_choice::look_budget(std::uint32_t candidate, const pass_cost& cost) const {
  if (cost.time(1) == 0) return 0;
  const double saved = since_look_ * look_share / cost.time(1);
  return looked_at_[candidate] ? saved : std::max(saved, first_look_passes);
}

/// Until it has seen enough, or that it is not worth it, or has cost enough.
bool probe_choice::goes_on_looking(probe_history& request, offer one, std::uint32_t num_lanes, double without,
                                   const pass_cost& cost) const {
  const auto& seen = request.candidates_[one.candidate];
  request.look_budget_ -= look_cost(one, num_lanes, cost);
  const double share = promise(request, one, num_lanes, cost) / without;
  const bool in_vain = (seen.num_samples >= few_samples && share < hopeless) ||
                       (seen.num_samples >= more_samples && share < 1);
  if (request.look_budget_ < 0 || in_vain) request.look_rounds_ = 0;
  if (request.look_rounds_ == 0) return false;
  --request.look_rounds_;
  return true;
}

std::optional<probe_choice::offer> probe_choice::choose(probe_history& request, std::span<const offer> offers,
                                                        std::uint32_t num_lanes, double without,
                                                        const pass_cost& cost) {
  if (offers.empty()) return std::nullopt;
  request.candidates_.resize(known_.size());
  if (request.pause_rounds_ > 0) {
    --request.pause_rounds_;
    return std::nullopt;
  }
  std::optional<offer> best;
  double most = without;
  for (const auto& one : offers) {
    const bool looking = request.look_rounds_ > 0 && request.looking_at_ == one.candidate;
    if (looking && goes_on_looking(request, one, num_lanes, without, cost)) return one;
    const double rate = promise(request, one, num_lanes, cost);
    const bool goes_on = request.candidates_[one.candidate].num_rounds > 0;
    if (rate <= most * (goes_on ? 1 : 1 + margin)) continue;
    best = one;
    most = rate;
  }
  if (best && ++num_carried_ % rounds_a_pause == 0) request.pause_rounds_ = pause_rounds;
  if (best) return best;
  for (const auto& one : offers) {
    const double budget = look_budget(one.candidate, cost);
    if (budget < (warm_rounds + few_samples) * look_cost(one, num_lanes, cost)) continue;
    since_look_ = 0;
    looked_at_[one.candidate] = true;
    request.candidates_[one.candidate] = {};
    request.looking_at_ = one.candidate;
    request.look_rounds_ = look_rounds - 1;
    request.look_budget_ = budget;
    return one;
  }
  return std::nullopt;
}

void probe_choice::settle(probe_history& request, std::optional<std::uint32_t> candidate, double gain,
                          std::uint32_t nodes) {
  for (std::uint32_t c = 0; c < request.candidates_.size(); ++c) {
    auto& one = request.candidates_[c];
    if (c != candidate) { // a round without does little harm to what many have made
      one.num_rounds -= std::min(one.num_rounds, warm_rounds);
      continue;
    }
    one.num_rounds = std::min(one.num_rounds + 1, 4 * warm_rounds);
    if (one.num_rounds <= warm_rounds) continue;
    const double own = weight_of(++one.num_samples, request_weight);
    move(one.gain, gain, own), move(one.nodes, nodes, own);
    auto& all = known_[c];
    const double common = weight_of(++all.num_samples, common_weight);
    move(all.gain, gain, common), move(all.nodes, nodes, common);
  }
}

} // namespace paceline::speculation
