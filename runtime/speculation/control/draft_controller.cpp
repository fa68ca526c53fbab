#include "runtime/speculation/control/draft_controller.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace paceline::speculation {

namespace {

constexpr std::size_t max_open = 8; ///< drafts of one request that are scored at the same time
/// Drafting must be expected to be this much faster, as a share, than not drafting: estimates err.
constexpr double margin = 0.02;

/// Share of what drafting gains that may go into plain rounds.
constexpr double plain_share = 0.005;
constexpr double fewest_between_plain = 4; ///< passes

/// Choices between looks at a size of pass that is not known: a curve with steps has bargains that its
/// neighbours do not tell of. Most of them in the beginning.
constexpr std::uint64_t fewest_between_looks = 6, most_between_looks = 32;

/// Share of the time that may go into asking for a token that is not worth it by what is known: texts and
/// times change.
constexpr double look_share = 0.01;
constexpr double first_look_passes = 200; ///< between looks at a drafter whose time is not known yet
/// The times of the first ones say nothing: the drafter reads what it missed. More until a time is known.
constexpr std::uint32_t look_rounds = 3, most_look_rounds = 10;
constexpr double rate_memory = 0.9; ///< of what drafts promise, a round
constexpr double step_memory = 0.8; ///< of a drafter's times, a draft

bool is_drawn(const draft& proposal) { return !proposal.probs.empty(); }

constexpr node_place place_of_level(std::uint32_t level) { return {.signal = 0, .depth = level, .rank = 0}; }

/// Nodes of each level of a plan, of the last ones fewer.
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

/// The best that a request can have of nodes with these probabilities (falling), each of which takes `step`
/// to draft, in a batch of `num_requests_here` requests that all do the same.
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

/// What to keep of a draft, by the choice among its nodes; of a drawn one, whose `keep` counts planned nodes,
/// the levels that these make.
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

/// One node more, the likeliest of those left out.
void add_next(std::span<const std::vector<double>> reach, node_choice& choice) {
  std::pair<std::size_t, std::size_t> best;
  double most = 0;
  for (std::size_t request = 0; request < reach.size(); ++request)
    for (std::size_t node = 0; node < reach[request].size(); ++node)
      if (!choice.keep[request][node] && reach[request][node] > most) {
        most = reach[request][node];
        best = {request, node};
      }
  if (most > 0) choice.keep[best.first][best.second] = true;
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
    open.at = static_cast<std::int32_t>(node); // later siblings were not needed
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

/// The table knows how often a sibling is right if those before it were wrong: what they leave is shared.
std::vector<double> draft_controller::reach_of(const draft& proposal, const draft_history::proposal& known,
                                               const request_bias& bias) const {
  if (known.drawn) return reach_by_level(proposal.plan, known.candidate, bias);
  const auto& places = known.places;
  std::vector<double> reach(places.size());
  std::vector<double> left(places.size() + 1, 1.0); // of each node, root first: what its children have left
  for (std::size_t node = 0; node < places.size(); ++node) {
    const std::int32_t parent = proposal.tree.parents()[node];
    const double above = parent == token_tree::root ? 1.0 : reach[static_cast<std::size_t>(parent)];
    const double right = bias.apply(tables_[known.candidate].probability(places[node]));
    double& rest = left[static_cast<std::size_t>(parent + 1)];
    reach[node] = above * rest * right;
    rest *= 1.0 - right;
  }
  return reach;
}

/// Of each node of a plan, level by level: what its level promises, in equal parts.
std::vector<double> draft_controller::reach_by_level(const draft_plan& plan, std::uint32_t candidate,
                                                     const request_bias& bias) const {
  const std::uint32_t width = width_of(plan);
  std::vector<double> reach;
  double above = 1.0;
  for (std::uint32_t level = 0; level < plan.levels; ++level) {
    above *= bias.apply(tables_of_plans_[candidate].probability(place_of_level(level)));
    reach.insert(reach.end(), width, above / width);
  }
  return reach;
}

/// Beside a pass over `num_rows` rows, in passes over one row.
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

void draft_controller::choose(std::span<request_choice> requests, const pass_load& load) {
  std::vector<std::vector<double>> reach(requests.size());
  std::vector<double> probes(requests.size()); // what those of the best draft cost
  for (std::size_t l = 0; l < requests.size(); ++l) {
    request_choice& one = requests[l];
    draft_history& history = *one.history;
    history.bias_.resize(tables_.size());
    const auto num_requests_here = static_cast<std::uint32_t>(requests.size());
    double best = 0, promised = best_of({}, num_requests_here, cost_, 0).rate;
    for (std::uint32_t c = 0; c < one.proposals.size(); ++c) {
      draft& proposal = one.proposals[c];
      if (proposal.tree.empty()) continue;
      draft_history::proposal known{c, proposal.base_length, proposal.tree, places_of(proposal),
                                    is_drawn(proposal)};
      history.draws_ = history.draws_ || known.drawn;
      std::vector<double> now = reach_of(proposal, known, history.bias_[c]);
      if (c < first_asked_) {
        auto falling = now;
        std::ranges::sort(falling, std::greater<>());
        promised = std::max(promised, best_of(falling, num_requests_here, cost_, 0).rate);
      }
      // Alone, beside the rows that are there anyway.
      const node_choice alone = choose_nodes({&now, 1}, load, cost_, 0);
      const double extra =
          alone.num_nodes == 0 ? 0 : cost_of_probes(proposal, load.num_rows + alone.num_nodes);
      const double rate = alone.tokens / (alone.cost + extra);
      if (rate > best) {
        best = rate;
        one.candidate = c;
        reach[l] = std::move(now);
        probes[l] = extra;
      }
      if (history.open_.size() >= max_open) history.open_.erase(history.open_.begin());
      history.open_.push_back(std::move(known));
    }
    history.rate_ =
        history.rate_ == 0 ? promised : rate_memory * history.rate_ + (1 - rate_memory) * promised;
  }
  pass_load together = load;
  for (std::size_t l = 0; l < requests.size(); ++l) // a draft that its probes make too dear is none
    if (probes[l] > 0 && pays_for_probes(reach[l], load, probes[l]))
      together.drafting += probes[l];
    else if (probes[l] > 0)
      reach[l].clear();
  const node_choice joint = choose_together(reach, together);
  for (std::size_t l = 0; l < requests.size(); ++l) {
    if (reach[l].empty()) continue;
    draft& proposal = requests[l].proposals[requests[l].candidate];
    const auto keep = kept_of(proposal, joint.keep[l]);
    requests[l].chosen = part_of(std::move(proposal), keep);
  }
}

/// The best set of nodes by what is known; now and then plain decoding, or a size of pass that is not known.
node_choice draft_controller::choose_together(std::span<const std::vector<double>> reach,
                                              const pass_load& load) {
  const auto nothing = [&] {
    return choose_nodes(reach, load, cost_, std::numeric_limits<double>::infinity());
  };
  // Passes with rows of prompts are not measured: beside them the curve alone decides, and nothing is tried.
  const bool alone = load.num_rows == load.num_requests;
  if (!alone && cost_.time(1) > 0) return choose_nodes(reach, load, cost_, margin);
  if (!cost_.seen_lately(load.num_rows)) return nothing();
  node_choice best = choose_nodes(reach, load, cost_, margin);
  ++num_choices_;
  if (best.num_nodes == 0) return best;
  // Plain decoding is the measure of everything else: the less there is to gain, the more often it is
  // measured.
  const double plain = load.num_requests / cost_.ratio(load.num_requests);
  const double gain = best.tokens / best.cost / plain - 1;
  const double passes_between = std::max(fewest_between_plain, gain / plain_share);
  if (static_cast<double>(cost_.age(load.num_rows)) > passes_between) return nothing();
  if (num_choices_ < next_curve_look_) return best;
  next_curve_look_ = num_choices_ + std::clamp(num_choices_ / 8, fewest_between_looks, most_between_looks);
  node_choice hopeful = choose_nodes(reach, load, cost_.hopeful(), margin);
  if (!cost_.seen_lately(load.num_rows + hopeful.num_nodes)) return hopeful;
  if (!cost_.seen_lately(load.num_rows + best.num_nodes + 1)) add_next(reach, best);
  return best;
}

void draft_controller::observe(std::uint32_t num_rows, double nanoseconds) noexcept {
  cost_.observe(num_rows, nanoseconds);
  since_look_ += nanoseconds;
}

void draft_controller::observe_drafting(std::uint32_t candidate, double nanoseconds) noexcept {
  drafting_step& step = steps_.at(candidate);
  step.nanoseconds =
      step.seen ? step_memory * step.nanoseconds + (1 - step_memory) * nanoseconds : nanoseconds;
  step.seen = true;
}

/// Deeper tokens are thought to be as good as those above them until they were tried.
std::vector<double> draft_controller::chain_reach(std::uint32_t candidate, const draft_history& request,
                                                  std::uint32_t length) const {
  const auto& table = request.draws_ ? tables_of_plans_[candidate] : tables_[candidate];
  std::vector<double> reach;
  double probability = 0.5;
  for (std::uint32_t depth = 0; depth < length; ++depth) {
    probability = table.probability(place_of_level(depth), probability);
    reach.push_back((reach.empty() ? 1.0 : reach.back()) * request.bias_[candidate].apply(probability));
  }
  return reach;
}

draft_controller::advice draft_controller::advise(std::span<const draft_history* const> requests,
                                                  std::uint32_t num_others, std::uint32_t max_length) {
  const double row = cost_.time(1);
  const auto learnt = [](const draft_history* one) { return !one->bias_.empty(); };
  if (first_asked_ == tables_.size() || row == 0 || requests.empty() ||
      !std::ranges::all_of(requests, learnt))
    return {};
  double best = 0; // what drafts that are there anyway promise
  for (const auto* one : requests) best += one->rate_ / static_cast<double>(requests.size());
  best *= 1 + margin;
  const auto num_requests = static_cast<std::uint32_t>(requests.size());
  const std::uint32_t num_rows = num_others + num_requests;
  advice out;
  for (std::uint32_t c = first_asked_; c < tables_.size(); ++c) {
    if (!steps_[c].seen) continue;
    const double step = steps_[c].nanoseconds / row;
    std::vector<std::vector<double>> reach(requests.size());
    for (std::uint32_t length = 1; length <= max_length; ++length) {
      for (std::size_t r = 0; r < requests.size(); ++r) reach[r] = chain_reach(c, *requests[r], length);
      const node_choice joint = choose_nodes(reach, {num_requests, num_rows, length * step}, cost_, 0);
      const double rate = joint.tokens / joint.cost;
      if (rate <= best) continue;
      best = rate;
      out.candidate = c;
      out.lengths.clear();
      for (const auto& kept : joint.keep)
        out.lengths.push_back(static_cast<std::uint32_t>(std::ranges::count(kept, true)));
    }
  }
  if (out.lengths.empty()) return look(requests.size(), row);
  // One token more now and then: what is not drafted is not scored.
  if (since_look_ * look_share > steps_[out.candidate].nanoseconds) {
    since_look_ = 0;
    for (auto& length : out.lengths) length += length > 0 && length < max_length ? 1 : 0;
  }
  return out;
}

/// A token a round, for a few rounds, of the candidate whose turn it is, if looking has not cost too much of
/// late.
draft_controller::advice draft_controller::look(std::size_t num_requests, double row) {
  const std::uint32_t c = next_look_;
  const drafting_step& step = steps_[c];
  if (look_rounds_ == 0) {
    const double cost = step.seen ? look_rounds * step.nanoseconds / look_share : first_look_passes * row;
    const bool first = !step.seen && num_looks_ <= c - first_asked_;
    if (!first && since_look_ < cost) return {};
    ++num_looks_;
    look_rounds_ = step.seen ? look_rounds : most_look_rounds;
  } else {
    --look_rounds_;
    if (step.seen) look_rounds_ = std::min(look_rounds_, look_rounds - 1);
  }
  since_look_ = 0;
  if (look_rounds_ > 0) return {c, std::vector<std::uint32_t>(num_requests, 1)};
  next_look_ = c + 1 < tables_.size() ? c + 1 : first_asked_;
  return {};
}

} // namespace paceline::speculation
