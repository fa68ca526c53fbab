#include "runtime/rounds/foreseen_drafts.hpp"

#include "runtime/rounds/draft_tasks.hpp"

#include <algorithm>
#include <cmath>
#include <exception>

namespace paceline::rounds {

using namespace scheduling; // plans, results and requests

namespace {

/// The path of first children, which are the best ones according to the drafter.
std::vector<token_id> best_path(const speculation::token_tree& tree) {
  std::vector<token_id> path;
  for (auto children = tree.children(speculation::token_tree::root); !children.empty();
       children = tree.children(children.front()))
    path.push_back(tree.tokens()[static_cast<std::size_t>(children.front())]);
  return path;
}

} // namespace

foreseen_drafts::foreseen_drafts(speculation::drafter& drafter, drafter_index index, draft_sessions& sessions,
                                 model::kv_storage* kv, std::uint32_t target_block_size,
                                 std::uint32_t context_length, std::uint32_t num_guesses, const clock& time)
    : drafter_(&drafter), index_(index), sessions_(&sessions), kv_(kv), target_block_size_(target_block_size),
      context_length_(context_length), num_guesses_(num_guesses), time_(&time),
      possible_(drafter.traits().drafts_in_advance()) {}

foreseen_drafts::pending* foreseen_drafts::find(group_id group, request_id request) {
  auto& all = pending_[group];
  const auto found =
      std::ranges::find_if(all, [&](const auto& one) { return one.log->terms().id() == request; });
  return found == all.end() ? nullptr : &*found;
}

void foreseen_drafts::remember(const round_plan& plan, std::span<const speculation::draft> drafts) {
  auto& all = pending_[plan.group];
  all.clear();
  if (!possible_) return;
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const auto& item = plan.items[i];
    if (drafts[i].tree.empty() || item.ahead == ahead_mode::off) continue;
    auto& one = all.emplace_back();
    const auto& log = *item.request.log;
    one.log = item.request.log;
    one.length = log.length();
    one.remaining = log.remaining();
    one.text.assign(log.tokens().begin(), log.tokens().end());
    const auto path = best_path(drafts[i].tree);
    one.text.insert(one.text.end(), path.begin(), path.end());
    if (log.terms().pipeline().reads_counts()) one.counts = log.counts();
    one.chain = drafts[i].tree.is_chain();
    one.alternates = drafts[i].alternates;
  }
}

void foreseen_drafts::drop_all() { pending_.clear(); }

void foreseen_drafts::drop_ended() {
  for (auto& [group, all] : pending_)
    std::erase_if(all, [](const pending& one) { return one.log->is_over(); });
}

std::optional<speculation::draft> foreseen_drafts::take(device::ops& ops, const round_plan& plan,
                                                        const plan_item& item, draft_batch& batch) {
  auto* request = find(plan.group, item.request.id());
  const auto text = item.request.log->tokens();
  if (!request || request->outcomes.empty() || request->next != plan.round || text.size() <= request->length)
    return std::nullopt;
  ++batch.num_foreseen;
  const auto kept = static_cast<double>(text.size() - request->length - 1);
  acceptance_ += 0.05 * (std::min(kept / request->path_length(), 1.0) - acceptance_);
  const auto found = std::ranges::find_if(request->outcomes, [&](const auto& one) {
    return std::ranges::equal(one.text, text); // most differ in their last tokens or in length
  });
  if (found == request->outcomes.end()) return std::nullopt;
  ++batch.num_ready;
  // Cells of a branch are moved to their positions in the text.
  const auto to = text_blocks(item);
  std::vector<device::kv_copy> copies;
  const auto num_cells = found->session->num_cells().all;
  for (std::size_t b = 0; kv_ && b < found->blocks.size(); ++b) {
    const auto first = static_cast<std::uint32_t>(b) * kv_->block_size();
    if (first < num_cells && found->blocks[b] != to[b])
      copies.push_back({found->blocks[b], 0, to[b], 0, std::min(num_cells - first, kv_->block_size())});
  }
  if (!copies.empty()) kv_->copy(ops, copies);
  sessions_->adopt(item.request.log, std::move(found->session));
  return std::move(found->result);
}

/// The outcome in which the request keeps `num_kept` tokens of its draft, followed by `token` if given.
foreseen_drafts::outcome foreseen_drafts::open(const pending& request, std::uint32_t num_kept,
                                               std::optional<token_id> then) const {
  outcome made;
  made.text.assign(request.text.begin(), request.text.begin() + request.length + num_kept);
  if (then) made.text.push_back(*then);
  if (!request.log->terms().pipeline().reads_counts()) return made;
  made.counts = request.counts;
  for (std::size_t i = request.length; i < made.text.size(); ++i) made.counts.add_output(made.text[i]);
  return made;
}

speculation::draft_task foreseen_drafts::task_for(const plan_item& item, const pending& request,
                                                  outcome& which, draft_bounds limit) const {
  auto task = lasting_task(item, limit);
  task.tokens = which.text;
  task.counts = &which.counts;
  task.blocks = which.blocks;
  task.session = which.session.get();
  task.constraint = sessions_->constraint(request.log, request.length - request.log->terms().prompt_length());
  task.result.base_length = static_cast<std::uint32_t>(which.text.size());
  task.num_foreseen = task.result.base_length - request.length;
  return task;
}

void foreseen_drafts::draft(device::ops& ops, const round_plan& next, const device::fence& verdict) {
  if (!possible_ || verdict.passed()) return;
  std::vector<ahead_entry> entries;
  for (const auto& item : next.items) {
    if (item.worker != index_ || item.ahead == ahead_mode::off || item.restart_at) continue;
    auto* request = find(next.group, item.request.id());
    auto* session = sessions_->find(item.request.id(), item.drafter_lease);
    if (request && session && request->outcomes.empty()) entries.push_back({request, session, &item, {}});
  }
  const auto begin = time_->now();
  try {
    guess_bonus_tokens(ops, next.round, entries);
    // The result is known now, so no guess is needed.
    if (!entries.empty() && !verdict.passed()) return draft_outcomes(ops, entries, begin);
  } catch (const std::exception&) {
  }
  for (auto& entry : entries) entry.request->outcomes.clear();
}

/// Opens the first outcome of every entry, in which all draft tokens are kept. Then the drafter proposes the
/// token after them.
void foreseen_drafts::guess_bonus_tokens(device::ops& ops, round_id next, std::vector<ahead_entry>& entries) {
  std::vector<speculation::draft_task> tasks;
  std::erase_if(entries, [&](const ahead_entry& entry) {
    auto& request = *entry.request;
    if (request.remaining <= request.path_length() + 1) return true; // the request ends with that outcome
    auto session = entry.session->clone();
    if (!session) return true;
    auto all_kept = open(request, request.path_length(), std::nullopt);
    all_kept.session = std::move(session);
    const auto blocks = text_blocks(*entry.item);
    all_kept.blocks.assign(blocks.begin(), blocks.end());
    request.outcomes.push_back(std::move(all_kept));
    request.next = next;
    if (!request.chain)
      entry.session->forget_draft(); // the cells of this path will overwrite the others in the clone
    return false;
  });
  for (auto& entry : entries) {
    auto task = task_for(*entry.item, *entry.request, entry.request->outcomes.front(), {1, 1, 1});
    task.lengths = length_rule::fixed; // length rules learn only from drafts
    task.num_alternates =
        entry.item->ahead == ahead_mode::outcomes && entry.request->chain ? num_guesses_ - 1 : 0;
    tasks.push_back(std::move(task));
  }
  if (tasks.empty()) return;
  drafter_->propose(ops, kv_, tasks);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto& result = tasks[i].result;
    if (!result.tree.empty()) entries[i].guesses.push_back(result.tree.tokens().front());
    for (const auto& more : result.alternates)
      entries[i].guesses.insert(entries[i].guesses.end(), more.begin(), more.end());
  }
}

/// Makes the drafts for `entries`. `begin` is when drafting for them began.
void foreseen_drafts::draft_outcomes(device::ops& ops, std::vector<ahead_entry>& entries, time_point begin) {
  for (auto& entry : entries) {
    auto& outcomes = entry.request->outcomes;
    if (entry.guesses.empty()) { // the drafter has no continuation
      outcomes.clear();
      continue;
    }
    if (entry.item->ahead == ahead_mode::outcomes) add_outcomes(ops, entry);
    auto& first = outcomes.front();
    first.text.push_back(entry.guesses.front());
    if (entry.request->log->terms().pipeline().reads_counts()) first.counts.add_output(entry.guesses.front());
  }
  std::vector<speculation::draft_task> tasks;
  std::vector<outcome*> owners;
  for (auto& entry : entries)
    for (auto& outcome : entry.request->outcomes) {
      const auto length = static_cast<std::uint32_t>(outcome.text.size());
      const auto remaining = entry.request->remaining - (length - entry.request->length);
      const auto limit = worker_limit(
          *entry.item, draft_limit(*entry.item, length, remaining, target_block_size_, context_length_));
      if (limit.length == 0) continue;
      tasks.push_back(task_for(*entry.item, *entry.request, outcome, limit));
      tasks.back().num_alternates = entry.item->ahead == ahead_mode::outcomes ? num_guesses_ : 0;
      owners.push_back(&outcome);
    }
  if (tasks.empty()) return;
  drafter_->propose(ops, kv_, tasks);
  const time_span drafted{begin, time_->now()};
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    owners[i]->result = std::move(tasks[i].result);
    owners[i]->result.drafted = drafted;
  }
}

/// The outcomes other than the first, likeliest first. The probability that a number of tokens is kept comes
/// from the recent acceptance. Each guess has half the probability of the previous one.
std::vector<std::pair<std::uint32_t, token_id>> foreseen_drafts::likeliest(const ahead_entry& entry) const {
  struct candidate {
    double weight;
    std::uint32_t num_kept;
    token_id then;
  };
  std::vector<candidate> all;
  const auto& request = *entry.request;
  const auto add = [&](double weight, std::uint32_t num_kept, std::span<const token_id> guesses) {
    for (std::size_t g = 0; g < std::min<std::size_t>(guesses.size(), num_guesses_); ++g)
      all.push_back({weight * std::pow(0.5, static_cast<double>(g)), num_kept, guesses[g]});
  };
  const auto length = request.path_length();
  for (std::uint32_t j = 0; j < length && j < request.alternates.size(); ++j)
    add(std::pow(acceptance_, j) * (1 - acceptance_), j, request.alternates[j]);
  add(std::pow(acceptance_, length) * 0.5, length, std::span(entry.guesses).subspan(1));
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.weight > b.weight; });
  std::vector<std::pair<std::uint32_t, token_id>> out;
  for (const auto& one : all) out.emplace_back(one.num_kept, one.then);
  return out;
}

/// Each outcome gets the blocks of the committed text and, from the block of the first draft token on, copies
/// of its own.
void foreseen_drafts::add_outcomes(device::ops& ops, ahead_entry& entry) const {
  auto& request = *entry.request;
  if (!request.chain || !kv_) return;
  const auto size = kv_->block_size();
  const auto text = text_blocks(*entry.item);
  const auto spare = std::span(entry.item->drafter_blocks).subspan(text.size());
  const auto cells = entry.session->num_cells();
  const std::size_t shared = cells.committed / size;
  const std::size_t wanted = (cells.committed % size + 2 * entry.item->worker_length + 1 + size - 1) / size;
  const auto own = std::min(wanted, text.size() - std::min(shared, text.size()));
  if (own == 0) return;
  std::vector<device::kv_copy> copies;
  std::size_t used = 0;
  for (const auto& [num_kept, then] : likeliest(entry)) {
    if (used + own > spare.size()) break;
    auto other = open(request, num_kept, then);
    other.session = entry.session->clone();
    other.blocks.assign(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(shared));
    for (std::size_t b = shared; b < shared + own; ++b) {
      const auto block = spare[used++];
      const auto first = static_cast<std::uint32_t>(b) * size;
      if (first < cells.all) copies.push_back({text[b], 0, block, 0, std::min(cells.all - first, size)});
      other.blocks.push_back(block);
    }
    request.outcomes.push_back(std::move(other));
  }
  if (!copies.empty()) kv_->copy(ops, copies);
}

} // namespace paceline::rounds
