#include "server/net/connection_set.hpp"

#include <utility>

namespace paceline::server {

connection_set::ticket::ticket(connection_set& set, std::shared_ptr<entry> place)
    : set_(set), entry_(std::move(place)) {}

connection_set::ticket::~ticket() {
  end_work();
  std::lock_guard lock(set_.mutex_);
  set_.count_out(*entry_);
  set_.open_.erase(entry_->position);
}

void connection_set::ticket::note_activity() {
  if (has_request_) return; // the common case needs no lock
  std::lock_guard lock(set_.mutex_);
  if (entry_->is == standing::silent)
    set_.silent_.splice(set_.silent_.end(), set_.silent_, entry_->in_silent);
}

void connection_set::ticket::note_request() {
  if (std::exchange(has_request_, true)) return;
  std::lock_guard lock(set_.mutex_);
  if (entry_->is != standing::silent) return;
  set_.silent_.erase(entry_->in_silent);
  entry_->is = standing::settled;
}

void connection_set::ticket::begin_work() {
  if (std::exchange(works_, true)) return;
  std::lock_guard lock(set_.mutex_);
  ++set_.num_working_;
}

void connection_set::ticket::end_work() {
  if (!std::exchange(works_, false)) return;
  std::lock_guard lock(set_.mutex_);
  if (--set_.num_working_ == 0) set_.idle_.notify_all();
}

/// Removes the entry from its counters.
void connection_set::count_out(entry& one) {
  if (one.is == standing::silent) silent_.erase(one.in_silent);
  if (one.is == standing::silent || one.is == standing::settled) --num_placed_;
  if (one.is == standing::refused) --num_refused_;
  one.is = standing::leaving;
}

std::shared_ptr<connection> connection_set::evict_one() {
  while (!silent_.empty()) {
    const auto victim = silent_.front();
    count_out(*victim); // its place is free at once, even if the connection closes later
    if (auto who = victim->who.lock()) return who;
  }
  return nullptr;
}

connection_set::place connection_set::add(const std::shared_ptr<connection>& added) {
  place given;
  std::shared_ptr<connection> victim;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return given;
    if (num_placed_ >= max_connections_) victim = evict_one();
    auto fresh = std::make_shared<entry>();
    fresh->who = added;
    if (num_placed_ < max_connections_) {
      given.outcome = admission::admitted;
      ++num_placed_;
      fresh->in_silent = silent_.insert(silent_.end(), fresh);
    } else {
      if (num_refused_ >= max_refusals_) return given;
      given.outcome = admission::refused;
      ++num_refused_;
      fresh->is = standing::refused;
    }
    fresh->position = open_.insert(open_.end(), fresh);
    given.held = std::make_shared<ticket>(*this, std::move(fresh));
  }
  given.evicted_another = victim != nullptr;
  if (victim) victim->abort();
  return given;
}

bool connection_set::evict_silent() {
  std::shared_ptr<connection> victim;
  {
    std::lock_guard lock(mutex_);
    victim = evict_one();
  }
  if (victim) victim->abort();
  return victim != nullptr;
}

void connection_set::replace(ticket& ticket, const std::shared_ptr<connection>& successor) {
  std::lock_guard lock(mutex_);
  ticket.entry_->who = successor;
}

std::size_t connection_set::size() const {
  std::lock_guard lock(mutex_);
  return num_placed_;
}

std::vector<std::shared_ptr<connection>> connection_set::all() const {
  std::vector<std::shared_ptr<connection>> alive;
  std::lock_guard lock(mutex_);
  for (const auto& one : open_)
    if (auto who = one->who.lock()) alive.push_back(std::move(who));
  return alive;
}

void connection_set::drain_all() {
  for (const auto& one : all()) one->drain();
}

void connection_set::cut_all_short() {
  for (const auto& one : all()) one->cut_short();
}

void connection_set::close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  for (const auto& one : all()) one->abort();
}

bool connection_set::wait_until_idle(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, timeout, [this] { return num_working_ == 0; });
}

} // namespace paceline::server
