#include "runtime/rounds/hypothesis_cells.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace paceline::rounds {

void hypothesis_cells::begin_round(std::vector<std::vector<token_id>> outputs, const layout& where) {
  where_ = where;
  num_owners_.resize(where.lease.size());
  for (auto& one : now_)
    if (one.session) before_.push_back(std::move(one));
  now_ = std::vector<hypothesis>(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) now_[i].output = std::move(outputs[i]);
  called_.clear();
  pending_.resize(outputs.size());
  std::iota(pending_.begin(), pending_.end(), std::size_t{0});
  catching_up_ = false;
}

/// The number of leading cells with the same content in both texts.
std::uint32_t hypothesis_cells::num_common(const hypothesis& a, const hypothesis& b) const {
  const auto parted = std::ranges::mismatch(a.output, b.output).in1;
  return where_.num_prompt_cells + static_cast<std::uint32_t>(parted - a.output.begin());
}

/// The number of leading cells of `of`'s text that the session of `from` has computed.
std::uint32_t hypothesis_cells::num_read(const hypothesis& of, const hypothesis& from) const {
  return std::min(from.session->num_cells().committed, num_common(of, from));
}

/// The open hypothesis whose session has computed most of the text of `to`; null if no session has computed
/// any of it.
hypothesis_cells::hypothesis* hypothesis_cells::nearest(const hypothesis& to) {
  hypothesis* best = nullptr;
  std::uint32_t most = 0;
  for (auto* const all : {&before_, &now_})
    for (auto& one : *all) {
      if (!one.session || num_read(to, one) <= most) continue;
      most = num_read(to, one);
      best = &one;
    }
  return best;
}

std::vector<std::size_t> hypothesis_cells::open_next(device::ops& ops, model::kv_storage& kv,
                                                     const speculation::drafter_session& empty) {
  std::vector<std::size_t> ready, waiting;
  for (const auto i : pending_) {
    auto& one = now_[i];
    const auto* from = nearest(one);
    const auto enough = from ? num_read(one, *from) + where_.num_read_twice : 0;
    one.is_behind = num_text_cells(one) > enough;
    const auto reads_its_text = [&](std::size_t other) { return num_common(one, now_[other]) > enough; };
    if (std::ranges::any_of(called_, reads_its_text))
      continue; // another hypothesis is still reading the text that they share
    auto& place = std::ranges::any_of(ready, reads_its_text) ? waiting : ready;
    place.push_back(i);
  }
  open(ops, kv, ready, empty);
  pending_ = std::move(waiting);
  called_.insert(called_.end(), ready.begin(), ready.end());
  std::erase_if(ready, [&](std::size_t i) { return !now_[i].session; });
  catching_up_ |= std::ranges::any_of(ready, [&](std::size_t i) { return now_[i].is_behind; });
  return ready;
}

/// Opens the hypotheses `ready`. If several of them continue the same hypothesis of the last round, the last
/// of them takes over its session.
void hypothesis_cells::open(device::ops& ops, model::kv_storage& kv, std::span<const std::size_t> ready,
                            const speculation::drafter_session& empty) {
  std::vector<hypothesis*> sources;
  for (const auto i : ready) sources.push_back(nearest(now_[i]));
  for (auto& old : before_)
    if (std::ranges::find(sources, &old) == sources.end()) close(old);
  const auto is_old = [&](const hypothesis* one) {
    return std::ranges::any_of(before_, [&](const auto& old) { return &old == one; });
  };
  std::vector<device::kv_copy> copies;
  for (std::size_t k = 0; k < ready.size(); ++k) {
    auto* const from = sources[k];
    const auto others = std::span(sources).subspan(k + 1);
    const bool is_last = is_old(from) && std::ranges::find(others, from) == others.end();
    if (from)
      go_on(*from, is_last, now_[ready[k]], copies);
    else
      begin_lease(now_[ready[k]], empty);
  }
  for (auto& old : before_) close(old);
  before_.clear();
  if (!copies.empty()) kv.copy(ops, copies);
}

/// Opens a hypothesis of whose text nothing has been computed: the first of all hypotheses, or one that
/// shares no text with others.
void hypothesis_cells::begin_lease(hypothesis& to, const speculation::drafter_session& empty) {
  to.begins_lease = std::ranges::all_of(num_owners_, [](auto num) { return num == 0; });
  for (auto next = next_free(0); next < num_owners_.size() && to.table.size() < num_wanted(to);
       next = next_free(next))
    add_block(to, next);
  if (has_room(to)) to.session = empty.clone();
  if (!to.session) close(to);
}

/// Opens a hypothesis with the cells of `from`, up to where their texts differ. If it is the last one to
/// continue `from`, it takes over the session and the blocks that no other hypothesis shares.
void hypothesis_cells::go_on(hypothesis& from, bool is_last, hypothesis& to,
                             std::vector<device::kv_copy>& copies) {
  const auto size = where_.block_size;
  const auto num_kept = num_read(to, from);
  const auto cells = from.session->num_cells();
  // With the draft's cells, if all committed ones are kept.
  const auto num_valid = num_kept == cells.committed ? cells.all : num_kept;
  // The newest row is always computed.
  const auto num_shared = std::min(num_kept, num_text_cells(to) - 1) / size;
  for (std::uint32_t b = 0, next = 0; b < num_wanted(to); ++b) {
    const bool had = b < from.table.size();
    if (had && (b < num_shared || (is_last && num_owners_[from.table[b]] == 1))) {
      add_block(to, from.table[b]);
      continue;
    }
    next = next_free(next);
    if (next == num_owners_.size()) break;
    if (had && b * size < num_valid)
      copies.push_back(
          {where_.lease[from.table[b]], 0, where_.lease[next], 0, std::min(num_valid - b * size, size)});
    add_block(to, next);
  }
  if (has_room(to)) to.session = is_last ? std::move(from.session) : from.session->clone();
  if (!to.session) return close(to);
  // A shorter draft needs fewer blocks than the previous draft. The previous draft's last cells then belong
  // to no hypothesis.
  if (to.session->num_cells().all > to.table.size() * size) to.session->forget_draft();
}

std::uint32_t hypothesis_cells::next_free(std::uint32_t number) const {
  while (number < num_owners_.size() && num_owners_[number] != 0) ++number;
  return number;
}

void hypothesis_cells::add_block(hypothesis& to, std::uint32_t number) {
  ++num_owners_[number];
  to.table.push_back(number);
  to.blocks.push_back(where_.lease[number]);
}

void hypothesis_cells::close(hypothesis& one) {
  for (const auto number : one.table) --num_owners_[number];
  one.table.clear();
  one.blocks.clear();
  one.session.reset();
}

} // namespace paceline::rounds
