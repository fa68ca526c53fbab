#include "runtime/scheduling/memory_ledger.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace paceline::scheduling {

void memory_ledger::open(request_id request) { accounts_.try_emplace(request); }

void memory_ledger::note_submissions(request_id request, std::span<const std::uint64_t> submissions) {
  auto& a = at(request);
  const auto note = [&](lease& l, pool_number pool) {
    if (pool.value < submissions.size()) l.last_use = std::max(l.last_use, submissions[pool.value]);
  };
  note(a.target, target_pool);
  if (a.drafter.pool) note(a.drafter, *a.drafter.pool);
}

void memory_ledger::acquire(acquire_command question, commands& out) {
  auto& l = at(question.request).target;
  question.ticket = l.asked = next_ticket_++;
  l.asked_for = question.num_positions;
  out.emplace_back(std::move(question));
}

void memory_ledger::want(request_id request, look_ahead least, commands& out) {
  auto& a = at(request);
  if (const auto next = next_question(a.target, a.use.target, least))
    out.emplace_back(reserve_command{request, target_pool, next->num_positions, next->ticket});
}

void memory_ledger::want_for_drafter(request_id request, pool_number pool,
                                     std::optional<std::uint32_t> text_begin, look_ahead least,
                                     commands& out) {
  auto& a = at(request);
  a.drafter.pool = pool;
  a.drafter.shares = text_begin.has_value();
  const auto next = next_question(a.drafter, a.use.drafter, least);
  if (!next) return;
  if (a.drafter.blocks.empty())
    out.emplace_back(
        acquire_for_drafter_command{request, pool, next->num_positions, next->ticket, text_begin});
  else
    out.emplace_back(reserve_command{request, pool, next->num_positions, next->ticket});
}

void memory_ledger::note_drafter_cells(request_id request, std::uint32_t num_cells, commands& out) {
  auto& l = at(request).drafter;
  if (num_cells <= l.num_cells || l.blocks.empty()) return;
  const auto num_full = std::exchange(l.num_cells, num_cells) / block_size_;
  // The pool must know which blocks are full and that copies were made. It may then reuse the sources of the
  // copies.
  const bool copied = !std::exchange(l.copies, {}).empty();
  if (!l.shares || (!copied && num_cells / block_size_ == num_full)) return;
  out.emplace_back(commit_command{request, *l.pool, 0, {}, num_cells});
}

void memory_ledger::return_drafter_lease(request_id request, commands& out) {
  auto& l = at(request).drafter;
  if (l.pool) out.emplace_back(release_command{request, *l.pool, l.last_use});
  l = {};
}

/// The next question for a longer lease, with as many positions as may be granted. nullopt if the lease is
/// long enough or an answer is still outstanding.
std::optional<memory_ledger::new_question>
memory_ledger::next_question(lease& l, const look_ahead_positions& wanted, look_ahead least) {
  if (l.asked) return std::nullopt;
  for (auto kind : {look_ahead::tree, look_ahead::chain, look_ahead::plain}) {
    if (kind > largest_look_ahead() || kind < least) continue;
    const auto num_positions = wanted.at(kind);
    if (positions(l) >= num_positions) return std::nullopt;
    if (l.refused_at != 0 && num_positions >= l.refused_at) continue;
    l.asked = next_ticket_++;
    l.asked_for = num_positions;
    return new_question{l.asked, num_positions};
  }
  return std::nullopt;
}

memory_ledger::answer memory_ledger::take(const lease_event& event, commands& out) {
  const auto found = accounts_.find(event.request);
  if (found == accounts_.end()) {
    if (event.granted) out.emplace_back(release_command{event.request, event.pool, 0});
    return answer::stale;
  }
  auto& a = found->second;
  const bool of_target = event.pool == target_pool;
  lease& l = of_target ? a.target : a.drafter;
  if (l.asked != event.ticket)
    return answer::stale; // a question from before a restart, which was asked again since
  l.asked = 0;
  if (of_target) a.way_made = false;
  if (!event.granted) {
    take_refusal(a, l, event.lacks_states, out);
    return answer::refused;
  }
  take_grant(a, l, event, out);
  return answer::granted;
}

void memory_ledger::take_grant(account& a, lease& l, const lease_event& event, commands& out) {
  if (&l == &a.drafter) {
    if (l.blocks.empty()) {
      a.drafter.number = event.ticket;
      a.drafter.num_cells = event.num_cached;
      a.drafter.copies = event.copies;
    }
    l.blocks = event.blocks;
    return;
  }
  l.blocks = event.blocks;
  call_off_preemptions_for(event.request);
  if (!std::exchange(a.holds, true)) {
    holders_.push_back(event.request);
  } else if (tight_) {
    roll_back(event.request, out); // the grant answers a question from before memory was tight
  }
}

void memory_ledger::take_refusal(account& a, lease& l, bool lacks_states, commands& out) {
  // Shorter leases return blocks, but no state slots: a request keeps those until it ends or is preempted.
  const bool ask_again = &l == &a.target && !lacks_states && tighten(out);
  if (!a.holds) { // this would have been its first lease
    admission_blocked_ = !ask_again;
  } else if (!ask_again) {
    l.refused_at = l.asked_for;
  }
}

void memory_ledger::on_blocks_freed() {
  admission_blocked_ = false;
  forget_ways();
  for (auto& [id, a] : accounts_) a.target.refused_at = a.drafter.refused_at = 0;
}

void memory_ledger::forget_ways() {
  for (auto& [id, a] : accounts_) a.way_made = false;
}

void memory_ledger::on_pool_restarted(commands& out) {
  retain_command held;
  for (auto id : holders_) {
    held.leases.push_back({id, target_pool});
    if (const auto& l = at(id).drafter; !l.blocks.empty()) held.leases.push_back({id, *l.pool});
  }
  out.emplace_back(std::move(held));
  for (auto& [id, a] : accounts_) a.target.asked = a.drafter.asked = 0;
  on_blocks_freed();
}

/// Called when the pool is full. Draft trees return the blocks that no round in flight uses. Returns true the
/// first time, because a smaller request may then succeed.
bool memory_ledger::tighten(commands& out) {
  if (std::exchange(tight_, true)) return false;
  for (auto id : holders_) roll_back(id, out);
  return true;
}

void memory_ledger::roll_back(request_id request, commands& out) {
  auto& a = at(request);
  auto& l = a.target;
  const auto keep = std::max(a.use.target.at(largest_look_ahead()), a.use.written);
  const auto num_blocks = blocks_for(keep);
  if (l.asked || !a.holds || a.use.closing || a.use.scattered || l.blocks.size() <= num_blocks) return;
  l.blocks.resize(num_blocks);
  out.emplace_back(rollback_command{request, target_pool, keep, l.last_use});
}

/// True if the pool has refused what the request needs for one token per round.
bool memory_ledger::lacks_blocks(const account& a) const {
  return a.target.refused_at != 0 && a.target.refused_at <= a.use.target.plain;
}

bool memory_ledger::stands_still(request_id request) const {
  const auto& a = at(request);
  return positions(a.target) < a.use.needed;
}

bool memory_ledger::short_of_blocks() const {
  return admission_blocked_ || std::ranges::any_of(holders_, [&](auto id) {
           const auto& a = at(id);
           return a.target.refused_at != 0 && a.target.refused_at <= a.use.target.at(look_ahead::chain);
         });
}

bool memory_ledger::admits() const {
  return !short_of_blocks() &&
         std::ranges::none_of(holders_, [&](auto id) { return at(id).target.asked != 0; });
}

std::optional<request_id> memory_ledger::make_way_for(request_id request) {
  const auto& a = at(request);
  const bool rounds_may_free = a.use.scattered && a.use.num_in_flight > 0;
  if (!a.holds || a.use.closing || a.gives_way_to || a.way_made || rounds_may_free) return std::nullopt;
  if (!stands_still(request) || !lacks_blocks(a)) return std::nullopt;
  return preempt_youngest_for(request);
}

/// True if blocks of a draft tree come back soon, so that no request need be preempted.
bool memory_ledger::tree_in_flight() const {
  return std::ranges::any_of(holders_, [&](auto id) {
    const auto& a = at(id);
    return !a.use.scattered && a.use.num_in_flight > 0 &&
           a.target.blocks.size() > blocks_for(a.use.target.at(look_ahead::chain));
  });
}

std::optional<request_id> memory_ledger::preempt_youngest_for(request_id needy) {
  if (tree_in_flight()) return std::nullopt;
  // The oldest request is never preempted, so at least one request always makes progress. If it is the only
  // one, it releases its blocks while it waits, because the request that holds the other blocks may wait for
  // these.
  const auto youngest = holders_.back();
  auto& victim = at(youngest);
  if (victim.use.closing || victim.gives_way_to) return std::nullopt; // its blocks come back soon
  if (holders_.size() == 1 && victim.use.num_in_flight > 0) return std::nullopt;
  victim.gives_way_to = needy;
  return youngest;
}

void memory_ledger::call_off_preemptions_for(request_id needy) {
  for (auto& [id, a] : accounts_)
    if (a.gives_way_to == needy) a.gives_way_to.reset();
}

bool memory_ledger::idle(request_id request) const {
  const auto& a = at(request);
  return a.use.num_in_flight == 0 && !a.target.asked && !a.drafter.asked;
}

void memory_ledger::preempted(request_id request, commands& out) {
  auto& a = at(request);
  if (a.gives_way_to)
    if (const auto needy = accounts_.find(*a.gives_way_to); needy != accounts_.end())
      needy->second.way_made = true;
  release(request, a, out);
  // Running requests have precedence. While one of them lacks blocks, admissions wait until blocks come back.
  // If none lacks blocks, admissions must not wait, because nothing would end the wait.
  admission_blocked_ = std::ranges::any_of(holders_, [&](auto id) { return lacks_blocks(at(id)); });
}

void memory_ledger::ended(request_id request, commands& out) {
  release(request, at(request), out);
  close(request);
  tight_ = false;
}

void memory_ledger::close(request_id request) {
  call_off_preemptions_for(request);
  accounts_.erase(request);
}

void memory_ledger::release(request_id request, account& a, commands& out) {
  out.emplace_back(release_command{request, target_pool, a.target.last_use});
  return_drafter_lease(request, out);
  a = {};
  std::erase(holders_, request);
}

std::string memory_ledger::check_invariants() const {
  std::set<std::uint64_t> tickets;
  for (const auto& [id, a] : accounts_) {
    const auto broken = [&, request = id](const char* what) {
      return "request " + to_string(request) + " " + what;
    };
    if (std::ranges::count(holders_, id) != (a.holds ? 1 : 0))
      return broken("is not listed as it holds memory");
    for (const lease* l : {&a.target, static_cast<const lease*>(&a.drafter)})
      if (l->asked != 0 && (l->asked >= next_ticket_ || !tickets.insert(l->asked).second))
        return broken("has a ticket that is another question's");
    if (!a.drafter.pool && (a.drafter.asked != 0 || !a.drafter.blocks.empty()))
      return broken("has memory of a drafter without a pool");
    if (!a.holds && (!a.target.blocks.empty() || !a.drafter.blocks.empty() || a.drafter.asked != 0))
      return broken("waits with blocks");
    if (!a.holds && (a.target.refused_at != 0 || a.gives_way_to)) return broken("waits, and is preempted");
    if (a.gives_way_to && !accounts_.contains(*a.gives_way_to)) return broken("gives way to nobody");
  }
  if (std::ranges::any_of(holders_, [&](auto id) { return !accounts_.contains(id); }))
    return "a request that is gone holds memory";
  return {};
}

std::string memory_ledger::describe(request_id request) const {
  const auto& a = at(request);
  const auto lease_text = [&](const lease& l) {
    return std::to_string(positions(l)) + " positions" + (l.asked ? ", asked" : "") +
           (l.refused_at != 0 ? ", refused " + std::to_string(l.refused_at) : "");
  };
  return std::string(a.gives_way_to ? "gives way, " : "") + "lease of " + lease_text(a.target) +
         ", drafter's of " + lease_text(a.drafter);
}

} // namespace paceline::scheduling
