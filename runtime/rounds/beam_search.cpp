#include "runtime/rounds/beam_search.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/portable_math.hpp"
#include "runtime/sampling/truncation.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace paceline::rounds {

beam_search::beam_search(const beam_params& params, const stop_params& stop, std::uint32_t prompt_length,
                         std::uint32_t max_output)
    : params_(params), stop_(stop), prompt_length_(prompt_length), max_output_(max_output), nodes_(1),
      living_(1) {
  PACELINE_CHECK(prompt_length > 0 && max_output > 0, "a beam search has a prompt and room for output");
  PACELINE_CHECK(params.width >= 1 && params.num_best >= 1 && params.num_best <= params.width,
                 "beam width " + std::to_string(params.width));
}

// ---- before the pass

void beam_search::forget_cells() {
  for (node& one : nodes_) one.slot.reset(), one.state.reset();
}

std::vector<state_slot> beam_search::needed_states() {
  std::vector<bool> needed(nodes_.size());
  for (const hypothesis& one : living_) needed[one.node] = true;
  for (const node& one : nodes_)
    if (!one.slot) needed[one.parent] = true;
  std::vector<state_slot> states;
  for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
    if (!needed[n]) nodes_[n].state.reset();
    if (nodes_[n].state) states.push_back(*nodes_[n].state);
  }
  return states;
}

bool beam_search::may_draft() const noexcept {
  if (finished_ || !prompt_is_computed() || living_.front().node == root) return false;
  return std::ranges::all_of(
      nodes_, [&](const node& one) { return one.slot || one.level == nodes_[living_.front().node].level; });
}

std::uint32_t beam_search::max_draft_levels() const noexcept {
  const auto level = nodes_[living_.front().node].level;
  return max_output_ > level + 1 ? max_output_ - level - 1
                                 : 0; // the step after the last level adds a token itself
}

void beam_search::add_draft(std::uint32_t i, const speculation::token_tree& draft) {
  std::vector<std::uint32_t> places; // of the draft's nodes
  progress uncounted;
  for (std::uint32_t n = 0; n < draft.size(); ++n) {
    const auto above = draft.parents()[n];
    const auto parent =
        above == speculation::token_tree::root ? living_[i].node : places[static_cast<std::size_t>(above)];
    const auto before = nodes_.size();
    places.push_back(child(parent, draft.tokens()[n],
                           uncounted)); // equal siblings are counted once
    if (nodes_.size() > before) nodes_.back().draft = true;
  }
}

std::span<const beam_search::row> beam_search::plan_rows(std::uint32_t num_slots, std::uint32_t most_rows) {
  rows_.clear();
  std::vector<bool> used(num_slots > prompt_length_ ? num_slots - prompt_length_ : 0);
  for (std::uint32_t n = 1; n < nodes_.size(); ++n)
    if (nodes_[n].slot) used.at(nodes_[n].slot->value - prompt_length_) = true;
  const auto newest = nodes_[living_.front().node].level;
  std::size_t free = 0;
  for (std::uint32_t n = 1; n < nodes_.size() && rows_.size() < most_rows; ++n) {
    node& one = nodes_[n];
    const bool wanted = one.draft || (one.level == newest && !one.next);
    if (one.slot && !wanted) continue;
    if (one.parent != root && !nodes_[one.parent].slot) continue; // a draft token whose parent got no cell
    if (!one.slot) {
      while (free < used.size() && used[free]) ++free;
      if (free == used.size()) break;
      used[free] = true;
      one.slot = kv_slot{prompt_length_ + static_cast<std::uint32_t>(free)};
    }
    one.has_row = wanted;
    rows_.push_back({n, wanted});
  }
  return rows_;
}

void beam_search::append_path(std::uint32_t node, std::vector<kv_slot>& out) const {
  const auto begin = out.size();
  for (auto at = node; at != root; at = nodes_[at].parent) out.push_back(slot_of(at));
  std::reverse(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end());
}

std::vector<kv_slot> beam_search::slots_of(std::uint32_t i) const {
  const auto newest = living_[i].node;
  if (newest == root) return {};
  std::vector<kv_slot> slots{kv_slot{prompt_length_ - 1}};
  append_path(nodes_[newest].parent, slots);
  return slots;
}

// ---- after the pass

beam_search::progress beam_search::advance(const beam_context& context, const node_row& rows) {
  progress done;
  for (const row& one : rows_) done.num_draft += nodes_[one.node].draft ? 1 : 0;
  const auto known = [&] {
    return std::ranges::all_of(living_, [&](const hypothesis& one) { return knows_successors(one.node); });
  };
  while (!finished_ && known()) {
    for (const hypothesis& one : living_) learn_successors(one.node, context, rows);
    step(context, done);
  }
  if (!finished_) // computed rows that wait for the rows of their siblings
    for (const hypothesis& one : living_)
      if (knows_successors(one.node)) learn_successors(one.node, context, rows);
  forget_other_nodes();
  return done;
}

/// Stores the 2 * width likeliest tokens after `node`.
void beam_search::learn_successors(std::uint32_t node, const beam_context& context, const node_row& rows) {
  if (nodes_[node].next) return;
  const auto output = path_tokens(node);
  const auto scores = rows(node);
  const auto level = nodes_[node].level;
  const sampling::row_context row{.committed = context.counts,
                                  .draft_path = output,
                                  .position = token_position{prompt_length_ + level},
                                  .output_index = level};
  auto& next = nodes_[node].next.emplace();
  if (!context.sampling->rank(scores, row)) return;
  const double log_total = portable_log(sampling::total_weight(scores));
  thread_local std::vector<sampling::candidate> best;
  sampling::select_top(scores, std::size_t{2} * params_.width, best);
  for (const auto& one : best) next.push_back({one.token, static_cast<double>(one.score) - log_total});
}

/// Possible next hypotheses, best first. At equal scores the continuation of the better hypothesis comes
/// first, then the lower token id.
std::vector<beam_search::candidate> beam_search::rank_candidates() const {
  std::vector<candidate> all;
  for (std::uint32_t i = 0; i < living_.size(); ++i)
    for (const auto& [token, logprob] : *nodes_[living_[i].node].next)
      all.push_back({living_[i].logprob + logprob, i, token});
  std::ranges::sort(all, [](const candidate& a, const candidate& b) {
    if (a.logprob != b.logprob) return a.logprob > b.logprob;
    return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
  });
  if (all.size() > std::size_t{2} * params_.width) all.resize(std::size_t{2} * params_.width);
  return all;
}

void beam_search::step(const beam_context& context, progress& done) {
  ++done.num_steps;
  const auto candidates = rank_candidates();
  std::vector<hypothesis> next;
  for (std::size_t rank = 0; rank < candidates.size() && next.size() < params_.width; ++rank) {
    const auto& one = candidates[rank];
    const hypothesis& parent = living_[one.parent];
    std::shared_ptr<const text_output> text;
    if (!ends(parent, one.token, context, text)) {
      next.push_back({child(parent.node, one.token, done), one.logprob, std::move(text)});
    } else if (rank < params_.width) {
      auto tokens = path_tokens(parent.node);
      tokens.push_back(one.token);
      const double score = score_of(one.logprob, tokens.size());
      ended_.push_back({std::move(tokens), one.logprob, score});
    }
  }
  if (next.empty() && ended_.empty()) throw std::runtime_error("no token had a finite logit");
  const bool full = !next.empty() && nodes_[next.front().node].level == max_output_;
  finished_ = ended_.size() >= params_.width || full || next.empty();
  if (full && ended_.size() < params_.width)
    for (const hypothesis& one : next)
      ended_.push_back({path_tokens(one.node), one.logprob, score_of(one.logprob, max_output_)});
  living_ = std::move(next);
}

bool beam_search::ends(const hypothesis& parent, token_id token, const beam_context& context,
                       std::shared_ptr<const text_output>& text) const {
  const bool may_stop = nodes_[parent.node].level + 1 >= stop_.min_tokens;
  const auto among = [&](const std::vector<token_id>& ids) { return std::ranges::binary_search(ids, token); };
  if (may_stop && (among(stop_.stop_ids) || (!stop_.ignore_eos && among(stop_.eos_ids)))) return true;
  if (!context.text) return false;
  auto longer = (parent.text ? *parent.text : *context.text).clone();
  const bool stopped = longer->feed(token, may_stop).stop_string.has_value();
  text = std::move(longer);
  return stopped;
}

std::vector<beam_result> beam_search::best() const {
  auto all = ended_;
  std::ranges::stable_sort(all, std::greater<>(),
                           &beam_result::score); // at equal scores, the one that ended first
  if (all.size() > params_.num_best) all.resize(params_.num_best);
  return all;
}

double beam_search::score_of(double logprob, std::size_t length) const {
  return logprob / std::pow(static_cast<double>(length), static_cast<double>(params_.length_penalty));
}

// ---- the trie of tokens

/// The child of `parent` with `token`. It is created if it does not exist. A draft token whose row the pass
/// computed counts as accepted.
std::uint32_t beam_search::child(std::uint32_t parent, token_id token, progress& done) {
  for (std::uint32_t n = parent + 1; n < nodes_.size(); ++n) {
    if (nodes_[n].parent != parent || nodes_[n].token != token) continue;
    done.num_accepted += nodes_[n].has_row && nodes_[n].draft ? 1 : 0;
    return n;
  }
  nodes_.push_back({.token = token, .parent = parent, .level = nodes_[parent].level + 1});
  return static_cast<std::uint32_t>(nodes_.size()) - 1;
}

std::vector<token_id> beam_search::path_tokens(std::uint32_t node) const {
  std::vector<token_id> path(nodes_[node].level);
  for (auto at = node; at != root; at = nodes_[at].parent) path[nodes_[at].level - 1] = nodes_[at].token;
  return path;
}

bool beam_search::is_ancestor(std::uint32_t node, std::uint32_t descendant) const noexcept {
  while (descendant != root && descendant != node) descendant = nodes_[descendant].parent;
  return descendant == node;
}

/// Keeps only nodes on the paths of living hypotheses.
void beam_search::forget_other_nodes() {
  std::vector<bool> kept(nodes_.size());
  kept[root] = true;
  for (const hypothesis& one : living_)
    for (auto at = one.node; !kept[at]; at = nodes_[at].parent) kept[at] = true;
  std::vector<std::uint32_t> moved_to(nodes_.size(), root);
  std::uint32_t size = 0;
  for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
    if (!kept[n]) continue;
    moved_to[n] = size;
    nodes_[n].parent = moved_to[nodes_[n].parent];
    nodes_[n].draft = nodes_[n].has_row = false;
    if (size != n) nodes_[size] = std::move(nodes_[n]);
    ++size;
  }
  nodes_.resize(size);
  for (hypothesis& one : living_) one.node = moved_to[one.node];
  root_decides_ = false;
  rows_.clear();
}

std::string beam_search::check_invariants() const {
  std::vector<kv_slot> slots;
  for (std::uint32_t n = 1; n < nodes_.size(); ++n) {
    const node& one = nodes_[n];
    if (one.parent >= n || one.level != nodes_[one.parent].level + 1) return "node before its parent";
    if (one.draft || one.has_row) return "draft token between rounds";
    for (std::uint32_t other = 1; other < n; ++other)
      if (nodes_[other].parent == one.parent && nodes_[other].token == one.token) return "equal siblings";
    if (one.slot) slots.push_back(*one.slot);
    if (std::ranges::none_of(living_, [&](const hypothesis& h) { return is_ancestor(n, h.node); }))
      return "node of no hypothesis";
  }
  std::ranges::sort(slots);
  if (std::ranges::adjacent_find(slots) != slots.end()) return "slot of two nodes";
  if (!slots.empty() && slots.front().value < prompt_length_) return "slot of the prompt";
  for (const hypothesis& one : living_) {
    if (nodes_[one.node].level != nodes_[living_.front().node].level) return "hypotheses of two lengths";
    if (std::ranges::count(living_, one.node, &hypothesis::node) != 1) return "equal hypotheses";
  }
  if (living_.size() > params_.width) return "too many hypotheses";
  return {};
}

} // namespace paceline::rounds
