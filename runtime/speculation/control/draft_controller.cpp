#include "runtime/speculation/control/draft_controller.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace paceline::speculation {

namespace {

constexpr std::size_t max_open = 8; ///< drafts of one request that are scored at the same time
/// Drafting must be expected to be this much faster, as a share, than not drafting: estimates err.
constexpr double margin = 0.02;

/// Every so many rounds one row more than chosen is tried, if such a pass has not been seen lately: a curve
/// with steps has bargains that its neighbours do not tell of.
constexpr std::uint64_t choices_a_look = 32;

/// Share of the time that may go into asking for a token that is not worth it by what is known: texts and times change.
constexpr double look_share = 0.01;
constexpr double first_look_passes = 200; ///< between looks at a drafter whose time is not known yet
/// The times of the first ones say nothing: the drafter reads what it missed. More until a time is known.
constexpr std::uint32_t look_rounds = 3, most_look_rounds = 10;
constexpr double rate_memory = 0.9; ///< of what drafts promise, a round
constexpr double step_memory = 0.8; ///< of a drafter's times, a draft

/// Of drafts that say nothing of themselves: drafts come in runs of right ones and of wrong ones (a passage is copied, or it
/// is not), so the newest tokens tell of the next. Known before any token of the round.
std::uint8_t signal_of_run(std::uint32_t length) {
  return static_cast<std::uint8_t>(length == 0 ? 1 : length < 4 ? 2 : length < 16 ? 3 : 4);
}

/// Of the verified nodes; `otherwise` has what stands for the signal of a draft that has none.
std::vector<node_place> places_of(const draft& proposal, node_place otherwise) {
  const token_tree& tree = proposal.tree;
  std::vector<node_place> places(proposal.num_verified());
  std::vector<std::uint32_t> num_children(tree.size() + 1);
  const bool speaks = proposal.probs.empty() && !proposal.signals.empty() && proposal.num_probes == 0;
  for (std::uint32_t node = 0; node < places.size(); ++node) {
    const auto parent = static_cast<std::size_t>(tree.parents()[node] + 1);
    places[node] = {.signal = speaks ? proposal.signals[node] : otherwise.signal,
                    .depth = tree.depths()[node],
                    .rank = num_children[parent]++,
                    .pooled = !speaks && otherwise.pooled};
  }
  return places;
}

struct promise {
  double rate = 0; ///< tokens per pass over one row
  std::uint32_t num_nodes = 0;
};

/// The best that a request can have of nodes with these probabilities (falling), each of which takes `step` to draft,
/// in a batch of `num_lanes` requests that all do the same.
promise best_of(std::span<const double> reach, std::uint32_t num_lanes, const pass_cost& cost, double step) {
  promise best{num_lanes / cost.ratio(num_lanes), 0};
  double tokens = 1;
  for (std::uint32_t n = 1; n <= reach.size(); ++n) {
    tokens += reach[n - 1];
    const double rate = num_lanes * tokens / (cost.ratio(num_lanes * (1 + n)) + n * step);
    if (rate > best.rate) best = {rate, n};
  }
  return best;
}

/// One node more, the likeliest of those left out.
void add_next(std::span<const std::vector<double>> reach, node_choice& choice) {
  std::pair<std::size_t, std::size_t> best;
  double most = 0;
  for (std::size_t lane = 0; lane < reach.size(); ++lane)
    for (std::size_t node = 0; node < reach[lane].size(); ++node)
      if (!choice.keep[lane][node] && reach[lane][node] > most) {
        most = reach[lane][node];
        best = {lane, node};
      }
  if (most > 0) choice.keep[best.first][best.second] = true;
}

} // namespace

bool draft_controller::score(draft_history& history, draft_history::proposal& open,
                             std::span<const token_id> tokens) {
  acceptance_table& table = tables_[open.candidate];
  while (open.base_length + open.num_right < tokens.size()) {
    const token_id came = tokens[open.base_length + open.num_right];
    std::optional<std::int32_t> match;
    bool any = false;
    for (std::uint32_t node = static_cast<std::uint32_t>(open.at + 1); node < open.tree.size(); ++node) {
      if (open.tree.parents()[node] != open.at) continue;
      any = true;
      const bool right = open.tree.tokens()[node] == came;
      history.bias_[open.candidate].count(table.probability(open.places[node]), right);
      table.count(open.places[node], right);
      if (!right) continue;
      match = static_cast<std::int32_t>(node);
      break; // later siblings were not needed
    }
    open.missed = any && !match;
    if (!match) return false;
    open.at = *match;
    ++open.num_right;
  }
  return true;
}

void draft_controller::learn(draft_history& history, std::span<const token_id> tokens) {
  history.bias_.resize(tables_.size());
  const auto runs = std::exchange(history.runs_, std::vector<draft_history::run>(tables_.size()));
  std::uint32_t newest = 0;
  for (const auto& open : history.open_) newest = std::max(newest, open.base_length);
  std::erase_if(history.open_, [&](auto& open) {
    const bool more = score(history, open, tokens);
    if (open.base_length == newest) {
      const std::uint32_t before = runs.empty() ? 0 : runs[open.candidate].length;
      const auto num_new = static_cast<std::uint32_t>(tokens.size() - std::min<std::size_t>(newest, tokens.size()));
      history.runs_[open.candidate] = {true, open.missed ? 0 : before + num_new};
    }
    return !more;
  });
}

/// Of a draft of `candidate` that has no signals.
node_place draft_controller::signal_for(const draft_history& history, std::uint32_t candidate) {
  const auto& run = history.runs_[candidate];
  return {.signal = run.known ? signal_of_run(run.length) : std::uint8_t{0}, .pooled = true};
}

std::vector<double> draft_controller::reach_of(const draft& proposal, std::span<const node_place> places,
                                               std::uint32_t candidate, const request_bias& bias,
                                               std::optional<double> guess) const {
  const acceptance_table& table = tables_[candidate];
  std::vector<double> reach(places.size());
  for (std::size_t node = 0; node < places.size(); ++node) {
    const std::int32_t parent = proposal.tree.parents()[node];
    const double above = parent == token_tree::root ? 1.0 : reach[static_cast<std::size_t>(parent)];
    const double right = guess ? table.probability(places[node], *guess) : table.probability(places[node]);
    reach[node] = above * bias.apply(right);
  }
  return reach;
}

/// Takes note of a lane's proposals, which are scored later, and of what they promise.
draft_controller::weighed draft_controller::weigh(lane& one, std::uint32_t num_lanes) {
  draft_history& history = *one.history;
  history.bias_.resize(tables_.size());
  history.runs_.resize(tables_.size());
  weighed all;
  all.reach.resize(one.proposals.size());
  double promised = best_of({}, num_lanes, cost_, 0).rate;
  for (std::uint32_t c = 0; c < one.proposals.size(); ++c) {
    const draft& proposal = one.proposals[c];
    if (proposal.tree.empty()) continue;
    all.asked = all.asked || c >= first_asked_;
    if (proposal.num_probes > 0) all.offers.push_back({c, proposal.num_probes});
    if (proposal.num_verified() == 0) continue;
    const std::uint8_t warmth = proposal.num_probes > 0 ? history.probes_.warmth(c) : std::uint8_t{0};
    const node_place otherwise = proposal.num_probes > 0 ? node_place{.signal = warmth} : signal_for(history, c);
    std::vector<node_place> places = places_of(proposal, otherwise);
    all.reach[c] = reach_of(proposal, places, c, history.bias_[c]);
    if (c < first_asked_) { // without probes they would be as good as they were: not at all, as long as that was not seen
      auto falling = warmth == 0 ? all.reach[c] : reach_of(proposal, places_of(proposal, {}), c, history.bias_[c], 0.0);
      std::ranges::sort(falling, std::greater<>());
      promised = std::max(promised, best_of(falling, num_lanes, cost_, 0).rate);
    }
    if (history.open_.size() >= max_open) history.open_.erase(history.open_.begin());
    token_tree verified = proposal.tree;
    verified.truncate(proposal.num_verified());
    history.open_.push_back({c, proposal.base_length, std::move(verified), std::move(places)});
  }
  const auto smooth = [](double& of_late, double now) {
    of_late = of_late == 0 ? now : rate_memory * of_late + (1 - rate_memory) * now;
  };
  smooth(history.rate_without_probes_, promised);
  for (const auto& offer : all.offers)
    promised = std::max(promised, probes_.promise(history.probes_, offer, num_lanes, cost_));
  smooth(history.rate_, promised);
  return all;
}

/// The proposal that would bring most alone, beside the rows that are there anyway: its nodes' reach.
std::vector<double> draft_controller::choose_candidate(lane& one, weighed& all, std::size_t num_lanes,
                                                       std::uint32_t num_rows) const {
  double best = 0;
  std::vector<double> reach;
  for (std::uint32_t c = 0; c < all.reach.size(); ++c) {
    if (all.reach[c].empty()) continue;
    const node_choice alone = choose_nodes({&all.reach[c], 1}, num_rows, cost_, 0);
    const double rate = (alone.tokens - 1 + static_cast<double>(num_lanes)) / alone.cost;
    if (rate <= best) continue;
    best = rate;
    one.candidate = c;
    reach = all.reach[c];
  }
  return reach;
}

void draft_controller::choose(std::span<lane> lanes, std::uint32_t num_rows) {
  const auto num_lanes = static_cast<std::uint32_t>(lanes.size());
  std::vector<weighed> all;
  for (lane& one : lanes) all.push_back(weigh(one, num_lanes));
  // Plain decoding is the measure of everything else: now and then it is measured.
  if (!cost_.seen_lately(num_rows)) return;
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    const draft_history& history = *lanes[l].history;
    if (!all[l].asked) // its tokens are paid for already
      all[l].carried = probes_.choose(lanes[l].history->probes_, all[l].offers, num_lanes, history.rate_without_probes_, cost_);
    if (all[l].carried) num_rows += all[l].carried->num_probes;
  }
  std::vector<std::vector<double>> reach;
  for (std::size_t l = 0; l < lanes.size(); ++l)
    reach.push_back(choose_candidate(lanes[l], all[l], lanes.size(), num_rows));
  node_choice joint = choose_nodes(reach, num_rows, cost_, margin);
  ++num_choices_;
  const bool known = cost_.seen_lately(num_rows + joint.num_nodes + 1);
  if (joint.num_nodes > 0 && !known && num_choices_ % choices_a_look == 0) add_next(reach, joint);
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    lane& one = lanes[l];
    const auto& carried = all[l].carried;
    const draft carrier = carried ? one.proposals[carried->candidate] : draft{};
    if (!reach[l].empty()) one.chosen = part_of(std::move(one.proposals[one.candidate]), joint.keep[l]);
    double gain = 0;
    for (std::size_t node = 0; node < reach[l].size(); ++node) gain += joint.keep[l][node] ? reach[l][node] : 0;
    probes_.settle(one.history->probes_, carried ? std::optional(carried->candidate) : std::nullopt, gain,
                   one.chosen.tree.size());
    if (!carried) continue;
    if (one.chosen.tree.empty()) one.chosen.base_length = carrier.base_length, one.candidate = carried->candidate;
    one.chosen.truncate(one.max_nodes - std::min(one.max_nodes, carried->num_probes));
    add_probes(one.chosen, carrier);
  }
}

void draft_controller::observe(std::uint32_t num_rows, double nanoseconds) noexcept {
  cost_.observe(num_rows, nanoseconds);
  probes_.observe(nanoseconds);
  since_look_ += nanoseconds;
}

void draft_controller::observe_drafting(std::uint32_t candidate, double nanoseconds) noexcept {
  drafting_step& step = steps_.at(candidate);
  step.nanoseconds = step.seen ? step_memory * step.nanoseconds + (1 - step_memory) * nanoseconds : nanoseconds;
  step.seen = true;
}

/// Deeper tokens are thought to be as good as those above them until they were tried.
std::vector<double> draft_controller::chain_reach(std::uint32_t candidate, const draft_history& request,
                                                  std::uint32_t length) const {
  std::vector<double> reach;
  node_place at = signal_for(request, candidate);
  double probability = 0.5;
  for (at.depth = 0; at.depth < length; ++at.depth) {
    probability = tables_[candidate].probability(at, probability);
    reach.push_back((reach.empty() ? 1.0 : reach.back()) * request.bias_[candidate].apply(probability));
  }
  return reach;
}

draft_controller::advice draft_controller::advise(std::span<const draft_history* const> requests,
                                                  std::uint32_t num_others, std::uint32_t max_length) {
  const double row = cost_.time(1);
  const auto learnt = [](const draft_history* one) { return !one->bias_.empty(); };
  if (first_asked_ == tables_.size() || row == 0 || requests.empty() || !std::ranges::all_of(requests, learnt))
    return {};
  double best = 0; // what drafts that are there anyway promise
  for (const auto* one : requests) best += one->rate_ / static_cast<double>(requests.size());
  best *= 1 + margin;
  const auto num_rows = num_others + static_cast<std::uint32_t>(requests.size());
  advice out;
  for (std::uint32_t c = first_asked_; c < tables_.size(); ++c) {
    if (!steps_[c].seen) continue;
    const double step = steps_[c].nanoseconds / row;
    std::vector<std::vector<double>> reach(requests.size());
    for (std::uint32_t length = 1; length <= max_length; ++length) {
      for (std::size_t r = 0; r < requests.size(); ++r) reach[r] = chain_reach(c, *requests[r], length);
      const node_choice joint = choose_nodes(reach, num_rows, cost_, 0, length * step);
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

/// A token a round, for a few rounds, of the candidate whose turn it is, if looking has not cost too much of late.
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
