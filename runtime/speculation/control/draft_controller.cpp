#include "runtime/speculation/control/draft_controller.hpp"

#include <algorithm>
#include <utility>

namespace paceline::speculation {

namespace {

constexpr std::size_t max_open = 8; ///< drafts of one request that are scored at the same time
/// Drafting must be expected to be this much faster, as a share, than not drafting: estimates err.
constexpr double margin = 0.02;

/// Every so many rounds one row more than chosen is tried, if such a pass has not been seen lately: a curve
/// with steps has bargains that its neighbours do not tell of.
constexpr std::uint64_t choices_a_look = 32;

std::vector<node_place> places_of(const draft& proposal) {
  const token_tree& tree = proposal.tree;
  std::vector<node_place> places(tree.size());
  std::vector<std::uint32_t> num_children(tree.size() + 1);
  for (std::uint32_t node = 0; node < tree.size(); ++node) {
    const auto parent = static_cast<std::size_t>(tree.parents()[node] + 1);
    const bool sampled = !proposal.probs.empty();
    places[node] = {.signal = sampled || proposal.signals.empty() ? std::uint8_t{0} : proposal.signals[node],
                    .depth = tree.depths()[node],
                    .rank = num_children[parent]++};
  }
  return places;
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
    if (!any || !match) return false;
    open.at = *match;
    ++open.num_right;
  }
  return true;
}

void draft_controller::learn(draft_history& history, std::span<const token_id> tokens) {
  history.bias_.resize(tables_.size());
  std::erase_if(history.open_, [&](auto& open) { return !score(history, open, tokens); });
}

std::vector<double> draft_controller::reach_of(const draft& proposal, std::span<const node_place> places,
                                               std::uint32_t candidate, const request_bias& bias) const {
  std::vector<double> reach(places.size());
  for (std::size_t node = 0; node < places.size(); ++node) {
    const std::int32_t parent = proposal.tree.parents()[node];
    const double above = parent == token_tree::root ? 1.0 : reach[static_cast<std::size_t>(parent)];
    reach[node] = above * bias.apply(tables_[candidate].probability(places[node]));
  }
  return reach;
}

void draft_controller::choose(std::span<lane> lanes, std::uint32_t num_rows) {
  std::vector<std::vector<double>> reach(lanes.size());
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    lane& one = lanes[l];
    draft_history& history = *one.history;
    history.bias_.resize(tables_.size());
    double best = 0;
    for (std::uint32_t c = 0; c < one.proposals.size(); ++c) {
      draft& proposal = one.proposals[c];
      if (proposal.tree.empty()) continue;
      std::vector<node_place> places = places_of(proposal);
      std::vector<double> now = reach_of(proposal, places, c, history.bias_[c]);
      // Alone, beside the rows that are there anyway.
      const node_choice alone = choose_nodes({&now, 1}, num_rows, cost_, 0);
      const double rate = (alone.tokens - 1 + static_cast<double>(lanes.size())) / alone.cost;
      if (rate > best) {
        best = rate;
        one.candidate = c;
        reach[l] = std::move(now);
      }
      if (history.open_.size() >= max_open) history.open_.erase(history.open_.begin());
      history.open_.push_back({c, proposal.base_length, proposal.tree, std::move(places)});
    }
  }
  // Plain decoding is the measure of everything else: now and then it is measured.
  if (!cost_.seen_lately(num_rows)) return;
  node_choice joint = choose_nodes(reach, num_rows, cost_, margin);
  ++num_choices_;
  const bool known = cost_.seen_lately(num_rows + joint.num_nodes + 1);
  if (joint.num_nodes > 0 && !known && num_choices_ % choices_a_look == 0) add_next(reach, joint);
  for (std::size_t l = 0; l < lanes.size(); ++l)
    if (!reach[l].empty())
      lanes[l].chosen = part_of(std::move(lanes[l].proposals[lanes[l].candidate]), joint.keep[l]);
}

} // namespace paceline::speculation
