#include "runtime/speculation/control/draft_controller.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace paceline::speculation {

namespace {

/// Drafts of one request and candidate that are compared with the committed tokens at the same time. In
/// rounds without drafts, this is also the number of levels that are compared.
constexpr std::ptrdiff_t max_open = 8;

/// The share of the speed that plain rounds may cost. A plain round loses the gain of one round, so there is
/// one in gain / plain_share rounds.
constexpr double plain_share = 0.005;
constexpr double fewest_between_plain = 4; ///< in passes

/// If a candidate has only probes, they are chosen at least once in so many choices, unless they then take
/// more than `look_share` of the time. The predictions of such a drafter are known only after a round with
/// its probes.
constexpr std::uint64_t most_without_probes = 256;

constexpr double rate_memory = 0.9; ///< share of a request's rate that is kept in each round

bool is_drawn(const draft& proposal) { return !proposal.probs.empty(); }

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

/// The best rate of a pass in which `num_alike` of the requests have drafts with these probabilities, which
/// fall, and verify the first n nodes: over all n, tokens per pass over one row.
double rate_of_alike(std::span<const double> reach, const pass_load& load, std::uint32_t num_alike,
                     const pass_cost& cost) {
  const double prompts = cost.ratio(load.num_rows) - cost.ratio(load.num_requests) - load.drafting;
  double best = load.num_requests / (cost.ratio(load.num_rows) - prompts);
  double tokens = load.num_requests;
  for (std::uint32_t n = 1; n <= reach.size(); ++n) {
    tokens += num_alike * reach[n - 1];
    best = std::max(best, tokens / (cost.ratio(load.num_rows + num_alike * n) - prompts));
  }
  return best;
}

/// The number of levels of a drawn draft that are verified if these planned nodes are kept.
std::uint32_t num_levels_of(const draft& proposal, const std::vector<bool>& keep) {
  const auto num_kept = static_cast<std::uint32_t>(std::ranges::count(keep, true));
  const std::uint32_t width = proposal.plan.width();
  return (num_kept + width - 1) / width;
}

std::vector<bool> first_levels(const token_tree& tree, std::uint32_t num_levels) {
  std::vector<bool> keep(tree.size());
  for (std::uint32_t node = 0; node < keep.size(); ++node) keep[node] = tree.depths()[node] < num_levels;
  return keep;
}

} // namespace

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
  const last_probes& last = probes_[candidate];
  const bool is_due = !probes_were_forced_ && last.num_choices >= most_without_probes &&
                      last.nanoseconds * look_share >= probes * cost_.time(1);
  if (!is_due && (rate <= best.rate || rate <= nothing.tokens / nothing.cost * (1 + margin))) return;
  probes_were_forced_ = probes_were_forced_ || is_due;
  best = {is_due ? std::numeric_limits<double>::infinity() : rate, 0, {}, probes, true};
  one.candidate = candidate;
}

/// Finds the candidate whose draft promises most in a pass with these other rows. It compares the
/// probabilities of the nodes with the cost of their rows and probes. If several requests have drafts,
/// `num_alike` of them, a draft is first judged as if all these drafts were like it: where V(T) has steps,
/// the rows of one draft alone may not be worth a step that the drafts of all requests are worth.
void draft_controller::weigh(request_choice& one, const pass_load& load, std::uint32_t num_requests,
                             std::uint32_t num_alike, best_draft& best) {
  draft_history& history = *one.history;
  history.bias_.resize(tables_.size());
  history.account_.candidates.resize(tables_.size());
  bool proposes = false;
  const pass_load batch{num_requests, num_requests};
  const double plain = rate_of_alike({}, batch, 0, cost_);
  const node_choice nothing = choose_nodes({}, load, cost_, 0);
  double promised = plain;
  for (std::uint32_t c = 0; c < one.proposals.size(); ++c) {
    const draft& proposal = one.proposals[c];
    if (proposal.tree.empty()) continue;
    draft_history::proposal known{c, proposal.base_length, proposal.tree, places_of(proposal),
                                  is_drawn(proposal)};
    history.weighs_probs_ = history.weighs_probs_ || known.drawn;
    if (history.weighs_probs_) draws_[c] = known.drawn;
    std::vector<double> now = reach_of(proposal, known, history.bias_[c]);
    proposes = true;
    auto falling = now;
    std::ranges::sort(falling, std::greater<>());
    if (c < first_asked_) promised = std::max(promised, rate_of_alike(falling, batch, num_requests, cost_));
    const node_choice alone = choose_nodes({&now, 1}, load, cost_, 0);
    const double extra = alone.num_nodes == 0 ? 0 : cost_of_probes(proposal, load.num_rows + alone.num_nodes);
    const double alike = num_alike > 1 ? rate_of_alike(falling, load, num_alike, cost_) : 0;
    one.options.push_back(
        {c, alone.num_nodes, 1 + alone.tokens - load.num_requests, alone.cost + extra, alike});
    note_proposal(history.account_.candidates[c], nothing, alone, extra, now, load);
    const double rate = alone.tokens / (alone.cost + extra);
    if (alike > best.rate_of_alike || (alike == best.rate_of_alike && rate > best.rate)) {
      // With other drafts it may be taken although it is not worth its rows alone. Its probes are never free.
      best = {rate, alike, std::move(now), cost_of_probes(proposal, load.num_rows + alone.num_nodes), false};
      one.candidate = c;
    }
    remember(history, std::move(known));
  }
  for (std::uint32_t c = 0; c < one.proposals.size(); ++c)
    if (one.proposals[c].tree.empty() && !one.proposals[c].probes.empty()) weigh_probes(one, c, load, best);
  ++history.account_.num_rounds;
  history.account_.num_without_proposal += proposes ? 0 : 1;
  const double gain = promised / plain; // a ratio, because a batch may have another size in the next round
  history.rate_ = history.rate_ == 0 ? gain : rate_memory * history.rate_ + (1 - rate_memory) * gain;
}

/// Keeps a draft until it is compared with the committed tokens.
void draft_controller::remember(draft_history& history, draft_history::proposal known) {
  const auto of_same = [c = known.candidate](const auto& open) { return open.candidate == c; };
  if (std::ranges::count_if(history.open_, of_same) >= max_open)
    history.open_.erase(std::ranges::find_if(history.open_, of_same));
  history.open_.push_back(std::move(known));
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
  const auto num_alike = static_cast<std::uint32_t>(std::ranges::count_if(requests, [](const auto& one) {
    return std::ranges::any_of(one.proposals, [](const draft& proposal) { return !proposal.tree.empty(); });
  }));
  probes_were_forced_ = false;
  for (std::size_t l = 0; l < requests.size(); ++l)
    weigh(requests[l], load, static_cast<std::uint32_t>(requests.size()), num_alike, best[l]);
  pass_load together = load;
  std::vector<std::vector<double>> reach(requests.size());
  for (std::size_t l = 0; l < requests.size(); ++l) {
    const double probes = best[l].probes;
    if (probes > 0 && (best[l].only_probes || pays_for_probes(best[l].reach, load, probes)))
      together.drafting += probes;
    else if (probes > 0) // the draft may pay without its probes
      requests[l].proposals[requests[l].candidate].probes.clear();
    reach[l] = best[l].reach;
  }
  const node_choice joint = choose_nodes(reach, together, cost_, margin);
  const bool plain = wants_plain_round(joint, load);
  // Plain rounds are measured even if drafts are only tried.
  const bool is_plain_due = joint.num_nodes == 0 && static_cast<double>(since_plain_) > fewest_between_plain;
  bool is_plain = true;
  std::vector<bool> was_tried(tables_.size());
  for (std::size_t l = 0; l < requests.size(); ++l) {
    request_choice& one = requests[l];
    one.plain_to_measure = plain;
    if (!plain && best[l].only_probes) {
      one.chosen = std::move(one.proposals[one.candidate]);
    } else if (!plain) {
      double tokens = 0;
      for (std::size_t node = 0; node < reach[l].size(); ++node)
        tokens += joint.keep[l][node] ? reach[l][node] : 0;
      const auto tried =
          is_plain_due ? std::nullopt : draft_to_try(one, tokens, load.num_rows + joint.num_nodes);
      const bool is_other = tried && *tried != one.candidate;
      if (tried) {
        was_tried[*tried] = true;
        since_level_[*tried] = 0;
        one.candidate = *tried;
      }
      if (tried || !reach[l].empty())
        take(one, is_other ? std::vector<bool>{} : joint.keep[l], tried ? 1 : 0);
    }
    is_plain = is_plain && one.chosen.num_rows() == 0;
    note_choice(one, best[l], load);
  }
  if (load.num_rows == load.num_requests) since_plain_ = is_plain ? 0 : since_plain_ + 1;
  for (std::uint32_t c = 0; c < tables_.size(); ++c)
    num_to_verify_[c] -= was_tried[c] && c >= first_asked_ ? 1 : 0;
}

/// A drawn draft of which one more level is to be verified than is worth its rows. `lost_tokens`: expected
/// tokens of the draft that was chosen, which are lost if another draft is taken. A token is worth at most a
/// pass. `num_rows`: rows of the pass.
std::optional<std::uint32_t> draft_controller::draft_to_try(const request_choice& one, double lost_tokens,
                                                            std::uint32_t num_rows) const {
  std::optional<std::uint32_t> out; // of those that are due, the one that was tried longest ago
  for (std::uint32_t c = 0; c < one.proposals.size(); ++c) {
    const draft& proposal = one.proposals[c];
    if (!is_drawn(proposal)) continue;
    const double rows = cost_.ratio(num_rows + proposal.plan.width()) - cost_.ratio(num_rows);
    const double price = (rows + (c == one.candidate ? 0 : lost_tokens)) * cost_.time(1);
    const bool is_due = c < first_asked_ ? since_level_[c] * look_share >= price : num_to_verify_[c] > 0;
    if (is_due && (!out || since_level_[c] > since_level_[*out])) out = c;
  }
  return out;
}

/// Takes these nodes of the draft of `one.candidate`. For a draft whose tokens are drawn, `keep` refers to
/// planned nodes. The levels that so many nodes fill are taken, and `num_more_levels`.
void draft_controller::take(request_choice& one, std::vector<bool> keep,
                            std::uint32_t num_more_levels) const {
  draft& proposal = one.proposals[one.candidate];
  if (is_drawn(proposal)) {
    const auto num_levels = std::min(num_levels_of(proposal, keep) + num_more_levels, proposal.plan.levels);
    keep = first_levels(proposal.tree, num_levels);
    for (auto& open : one.history->open_)
      if (open.candidate == one.candidate && open.base_length == proposal.base_length)
        open.num_verified = num_levels;
  }
  one.chosen = part_of(std::move(proposal), keep);
}

/// Counts what was chosen for a request.
void draft_controller::note_choice(request_choice& one, const best_draft& best, const pass_load& load) {
  auto& account = one.history->account_;
  account.num_plain_to_measure += one.plain_to_measure && !best.reach.empty() ? 1 : 0;
  if (!one.chosen.tree.empty()) ++account.candidates[one.candidate].num_chosen;
  for (auto& last : probes_) ++last.num_choices;
  if (best.only_probes && one.chosen.num_rows() > 0) probes_[one.candidate] = {};
  note_calls(one, load);
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

void draft_controller::observe(std::uint32_t num_rows, double nanoseconds) noexcept {
  cost_.observe(num_rows, nanoseconds);
  since_look_ += nanoseconds;
  since_trial_ += nanoseconds;
  for (auto& last : probes_) last.nanoseconds += nanoseconds;
  for (auto& since : since_level_) since += nanoseconds;
}

void draft_controller::observe_drafting(std::uint32_t candidate, double nanoseconds,
                                        bool catching_up) noexcept {
  drafting_time& step = steps_.at(candidate);
  if (!catching_up) return step.observe(nanoseconds);
  const double least = step.least_catching_up;
  step.least_catching_up = least == 0 ? nanoseconds : std::min(least, nanoseconds);
}

} // namespace paceline::speculation
