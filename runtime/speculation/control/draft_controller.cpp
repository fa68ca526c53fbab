#include "runtime/speculation/control/draft_controller.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace paceline::speculation {

namespace {

constexpr std::size_t max_open = 8; ///< drafts of one request that are scored at the same time

/// The share of the speed that plain rounds may cost. A plain round loses the gain of one round, so there is
/// one in gain / plain_share rounds.
constexpr double plain_share = 0.005;
constexpr double fewest_between_plain = 4; ///< in passes

/// If the calls of an in-line candidate take at most this share of a pass, it is called in every round. Other
/// candidates are called less often after `patience` calls in vain, but at least once in `most_skipped`
/// rounds.
constexpr double cheap_share = 0.001;
constexpr std::uint32_t patience = 4, most_skipped = 64;

/// If a candidate has only probes, at least one of so many choices is for its probes alone. The predictions
/// of such a drafter are known only after a round with its probes.
constexpr std::uint64_t most_without_probes = 256;

constexpr double rate_memory = 0.9; ///< share of a request's rate that is kept in each round

bool is_drawn(const draft& proposal) { return !proposal.probs.empty(); }

/// The number of nodes of each level of a plan. The last levels may have fewer.
std::uint32_t width_of(const draft_plan& plan) {
  return plan.levels == 0 ? 1 : std::max(1U, (plan.nodes + plan.levels - 1) / plan.levels);
}

std::vector<node_place> places_of(const draft& proposal) {
  const token_tree& tree = proposal.tree;
  if (is_drawn(proposal)) {
    std::vector<node_place> levels(proposal.plan.levels);
    for (std::uint32_t level = 0; level < levels.size(); ++level) levels[level] = place_of_level(level);
    return levels;
  }
  std::vector<node_place> places(tree.size());
  std::vector<std::uint32_t> num_children(tree.size() + 1);
  for (std::uint32_t node = 0; node < tree.size(); ++node) {
    const auto parent = static_cast<std::size_t>(tree.parents()[node] + 1);
    places[node] = {.signal = proposal.signals.empty() ? std::uint8_t{0} : proposal.signals[node],
                    .depth = tree.depths()[node],
                    .rank = num_children[parent]++};
  }
  return places;
}

struct promise {
  double rate = 0; ///< tokens per pass over one row
  std::uint32_t num_nodes = 0;
};

/// The best rate that a request can have with the first n of these nodes, over all n. `reach` holds the
/// nodes' probabilities in falling order, and each node takes `step` to draft. All `num_requests_here`
/// requests of the batch are assumed to do the same.
promise best_of(std::span<const double> reach, std::uint32_t num_requests_here, const pass_cost& cost,
                double step) {
  promise best{num_requests_here / cost.ratio(num_requests_here), 0};
  double tokens = 1;
  for (std::uint32_t n = 1; n <= reach.size(); ++n) {
    tokens += reach[n - 1];
    const double rate = num_requests_here * tokens / (cost.ratio(num_requests_here * (1 + n)) + n * step);
    if (rate > best.rate) best = {rate, n};
  }
  return best;
}

/// Which nodes of a draft to keep. For a draft whose tokens are drawn, `keep` refers to planned nodes, and
/// the levels that so many nodes fill are kept.
std::vector<bool> kept_of(const draft& proposal, std::vector<bool> keep) {
  if (!is_drawn(proposal)) return keep;
  const std::uint32_t width = width_of(proposal.plan);
  const auto num_kept = static_cast<std::uint32_t>(std::ranges::count(keep, true));
  const std::uint32_t num_levels = (num_kept + width - 1) / width;
  std::vector<bool> out(proposal.tree.size());
  for (std::uint32_t node = 0; node < out.size(); ++node)
    out[node] = proposal.tree.depths()[node] < num_levels;
  return out;
}

} // namespace

bool draft_controller::score(draft_history& history, draft_history::proposal& open,
                             std::span<const token_id> tokens) {
  while (open.base_length + open.num_right < tokens.size()) {
    const token_id came = tokens[open.base_length + open.num_right];
    if (!(open.drawn ? score_level(history, open, came) : score_next(history, open, came))) return false;
    ++open.num_right;
  }
  return true;
}

bool draft_controller::score_next(draft_history& history, draft_history::proposal& open, token_id came) {
  acceptance_table& table = tables_[open.candidate];
  for (std::uint32_t node = static_cast<std::uint32_t>(open.at + 1); node < open.tree.size(); ++node) {
    if (open.tree.parents()[node] != open.at) continue;
    const bool right = open.tree.tokens()[node] == came;
    history.bias_[open.candidate].count(table.probability(open.places[node]), right);
    table.count(open.places[node], right);
    if (!right) continue;
    open.at = static_cast<std::int32_t>(node); // later siblings were not tried
    return true;
  }
  return false;
}

bool draft_controller::score_level(draft_history& history, draft_history::proposal& open, token_id came) {
  if (open.num_right >= open.places.size()) return false;
  acceptance_table& table = tables_of_plans_[open.candidate];
  const node_place level = open.places[open.num_right];
  const auto node = open.tree.child(open.at, came);
  history.bias_[open.candidate].count(table.probability(level), node.has_value());
  table.count(level, node.has_value());
  if (node) open.at = *node;
  return node.has_value();
}

void draft_controller::learn(draft_history& history, std::span<const token_id> tokens) {
  history.bias_.resize(tables_.size());
  std::erase_if(history.open_, [&](auto& open) { return !score(history, open, tokens); });
}

/// The probability of each node that it is accepted. The table has the probability that a node is right if
/// its earlier siblings were wrong, so each sibling gets its part of what the earlier ones leave.
std::vector<double> draft_controller::reach_of(const draft& proposal, const draft_history::proposal& known,
                                               const request_bias& bias) const {
  if (known.drawn) return reach_by_level(proposal.plan, known.candidate, bias);
  const auto& places = known.places;
  std::vector<double> reach(places.size());
  // By node, root first: the probability that its children so far have left.
  std::vector<double> left(places.size() + 1, 1.0);
  for (std::size_t node = 0; node < places.size(); ++node) {
    const std::int32_t parent = proposal.tree.parents()[node];
    const double above = parent == token_tree::root ? 1.0 : reach[static_cast<std::size_t>(parent)];
    const double right = bias.at_least(tables_[known.candidate].probability(places[node]));
    double& rest = left[static_cast<std::size_t>(parent + 1)];
    reach[node] = above * rest * right;
    rest *= 1.0 - right;
  }
  return reach;
}

/// The probability of each node of a plan, level by level. The nodes of a level have equal parts of the
/// level's probability.
std::vector<double> draft_controller::reach_by_level(const draft_plan& plan, std::uint32_t candidate,
                                                     const request_bias& bias) const {
  const std::uint32_t width = width_of(plan);
  std::vector<double> reach;
  double above = 1.0;
  for (std::uint32_t level = 0; level < plan.levels; ++level) {
    above *= bias.at_least(tables_of_plans_[candidate].probability(place_of_level(level)));
    reach.insert(reach.end(), width, above / width);
  }
  return reach;
}

/// What the probes add to the cost of a pass over `num_rows` rows, in passes over one row.
double draft_controller::cost_of_probes(const draft& proposal, std::uint32_t num_rows) const {
  const auto num_probes = static_cast<std::uint32_t>(proposal.probes.size());
  return cost_.ratio(num_rows + num_probes) - cost_.ratio(num_rows);
}

bool draft_controller::pays_for_probes(const std::vector<double>& reach, pass_load load,
                                       double probes) const {
  const node_choice nothing = choose_nodes({}, load, cost_, 0);
  load.drafting += probes;
  const node_choice best = choose_nodes({&reach, 1}, load, cost_, 0);
  return best.tokens / best.cost > nothing.tokens / nothing.cost * (1 + margin);
}

/// The rate of two rounds together: this round with the probes and no draft, and the next round, which
/// verifies the chain that the probes give. The next round is assumed to have as many probes.
double draft_controller::rate_of_probes(const draft& proposal, const draft_history& history,
                                        std::uint32_t candidate, const pass_load& load) const {
  std::uint32_t levels = 0;
  for (const probe& one : proposal.probes) levels = std::max(levels, one.depth + 1);
  const std::vector<double> reach = chain_reach(candidate, history, levels);
  const node_choice now = choose_nodes({}, load, cost_, 0), next = choose_nodes({&reach, 1}, load, cost_, 0);
  const double probes = cost_of_probes(proposal, load.num_rows);
  return (now.tokens + next.tokens) / (now.cost + next.cost + 2 * probes);
}

void draft_controller::weigh_probes(request_choice& one, std::uint32_t candidate, const pass_load& load,
                                    best_draft& best) {
  const draft& proposal = one.proposals[candidate];
  const node_choice nothing = choose_nodes({}, load, cost_, 0);
  const double rate = rate_of_probes(proposal, *one.history, candidate, load);
  const double probes = cost_of_probes(proposal, load.num_rows), cost = nothing.cost + probes;
  one.options.push_back({candidate, 0, rate * cost + 1 - load.num_requests, cost});
  const bool is_due = since_probes_ >= most_without_probes;
  if (!is_due && (rate <= best.rate || rate <= nothing.tokens / nothing.cost * (1 + margin))) return;
  best = {is_due ? std::numeric_limits<double>::infinity() : rate, {}, probes, true};
  one.candidate = candidate;
}

/// Finds the candidate whose draft promises most in a pass with these other rows. It compares the
/// probabilities of the nodes with the cost of their rows and probes.
void draft_controller::weigh(request_choice& one, const pass_load& load, std::uint32_t num_requests,
                             best_draft& best) {
  draft_history& history = *one.history;
  history.bias_.resize(tables_.size());
  history.account_.candidates.resize(tables_.size());
  bool proposes = false;
  const double plain = best_of({}, num_requests, cost_, 0).rate;
  const node_choice nothing = choose_nodes({}, load, cost_, 0);
  double promised = plain;
  for (std::uint32_t c = 0; c < one.proposals.size(); ++c) {
    draft& proposal = one.proposals[c];
    if (proposal.tree.empty() && !proposal.probes.empty()) weigh_probes(one, c, load, best);
    if (proposal.tree.empty()) continue;
    draft_history::proposal known{c, proposal.base_length, proposal.tree, places_of(proposal),
                                  is_drawn(proposal)};
    history.draws_ = history.draws_ || known.drawn;
    std::vector<double> now = reach_of(proposal, known, history.bias_[c]);
    proposes = true;
    if (c < first_asked_) {
      auto falling = now;
      std::ranges::sort(falling, std::greater<>());
      promised = std::max(promised, best_of(falling, num_requests, cost_, 0).rate);
    }
    const node_choice alone = choose_nodes({&now, 1}, load, cost_, 0);
    const double extra = alone.num_nodes == 0 ? 0 : cost_of_probes(proposal, load.num_rows + alone.num_nodes);
    one.options.push_back({c, alone.num_nodes, 1 + alone.tokens - load.num_requests, alone.cost + extra});
    note_proposal(history.account_.candidates[c], nothing, alone, extra, now, load);
    const double rate = alone.tokens / (alone.cost + extra);
    if (rate > best.rate) {
      best = {rate, std::move(now), extra, false};
      one.candidate = c;
    }
    if (history.open_.size() >= max_open) history.open_.erase(history.open_.begin());
    history.open_.push_back(std::move(known));
  }
  ++history.account_.num_rounds;
  history.account_.num_without_proposal += proposes ? 0 : 1;
  const double gain = promised / plain; // a ratio, because a batch may have another size in the next round
  history.rate_ = history.rate_ == 0 ? gain : rate_memory * history.rate_ + (1 - rate_memory) * gain;
}

/// Counts a draft whose best choice is `alone`, in comparison with `nothing`. If the best choice is no token,
/// the account gets the best choice with at least one token, to explain the decision. The negative margin
/// makes `choose_nodes` return such a choice.
void draft_controller::note_proposal(draft_account::candidate& of, const node_choice& nothing,
                                     const node_choice& alone, double probes,
                                     const std::vector<double>& reach, const pass_load& load) const {
  const node_choice some = alone.num_nodes > 0 ? alone : choose_nodes({&reach, 1}, load, cost_, -1);
  ++of.num_proposals;
  of.tokens += some.tokens / nothing.tokens;
  of.time += (some.cost + probes) / nothing.cost;
}

void draft_controller::choose(std::span<request_choice> requests, const pass_load& load) {
  std::vector<best_draft> best(requests.size());
  for (std::size_t l = 0; l < requests.size(); ++l)
    weigh(requests[l], load, static_cast<std::uint32_t>(requests.size()), best[l]);
  pass_load together = load;
  std::vector<std::vector<double>> reach(requests.size());
  for (std::size_t l = 0; l < requests.size(); ++l) {
    const auto& [rate, nodes, probes, only_probes] = best[l];
    if (probes > 0 && (only_probes || pays_for_probes(nodes, load, probes)))
      together.drafting += probes;
    else if (probes > 0) // the draft may pay without its probes
      requests[l].proposals[requests[l].candidate].probes.clear();
    reach[l] = nodes;
  }
  const node_choice joint = choose_nodes(reach, together, cost_, margin);
  const bool plain = wants_plain_round(joint, load);
  if (load.num_rows == load.num_requests) since_plain_ = plain || joint.num_nodes == 0 ? 0 : since_plain_ + 1;
  for (std::size_t l = 0; l < requests.size(); ++l) {
    request_choice& one = requests[l];
    one.plain_to_measure = plain;
    const bool only_probes = !plain && best[l].only_probes;
    since_probes_ = only_probes ? 0 : since_probes_ + 1;
    if (only_probes) {
      one.chosen = std::move(one.proposals[one.candidate]);
    } else if (!plain && !reach[l].empty()) {
      draft& proposal = one.proposals[one.candidate];
      const auto keep = kept_of(proposal, joint.keep[l]);
      one.chosen = part_of(std::move(proposal), keep);
    }
    auto& account = one.history->account_;
    account.num_plain_to_measure += plain && !reach[l].empty() ? 1 : 0;
    if (!one.chosen.tree.empty()) ++account.candidates[one.candidate].num_chosen;
    note_calls(one, load);
  }
}

/// True if this round should be plain to measure its time, with which everything else is compared. The less
/// there is to gain, the more often this happens. It never happens in passes with rows of prompts, because
/// these are not measured.
bool draft_controller::wants_plain_round(const node_choice& best, const pass_load& load) const {
  if (best.num_nodes == 0 || load.num_rows != load.num_requests) return false;
  if (!cost_.known(load.num_rows)) return true;
  const double plain = load.num_requests / cost_.ratio(load.num_requests);
  const double gain = best.tokens / best.cost / plain - 1;
  return static_cast<double>(since_plain_) > std::max(fewest_between_plain, gain / plain_share);
}

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
  for (const auto& o : one.options)
    if (o.candidate == one.candidate)
      chosen = rate_of(o);
    else
      next_best = std::max(next_best, rate_of(o));
  auto& calls = one.history->calls_;
  for (std::uint32_t c = 0; c < calls.size(); ++c) {
    if (!std::exchange(calls[c].asked, false) || one.proposals[c].catching_up) continue;
    const bool taken = one.chosen.num_rows() > 0 && one.candidate == c;
    const bool pays = taken && chosen > next_best * (1 + share_of_pass(c, load.num_requests));
    if (pays) calls[c].num_to_skip = 0;
    calls[c].num_vain = pays ? 0 : calls[c].num_vain + 1;
  }
}

void draft_controller::observe_proposing(std::uint32_t candidate, std::uint32_t num_requests,
                                         double nanoseconds) noexcept {
  if (num_requests > 0) proposing_.at(candidate).observe(nanoseconds / num_requests);
}

void draft_controller::observe(std::uint32_t num_rows, double nanoseconds) noexcept {
  cost_.observe(num_rows, nanoseconds);
  since_look_ += nanoseconds;
}

void draft_controller::observe_drafting(std::uint32_t candidate, double nanoseconds) noexcept {
  steps_.at(candidate).observe(nanoseconds);
}

} // namespace paceline::speculation
