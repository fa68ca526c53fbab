#include "server/net/connection.hpp"

namespace paceline::server {

connection_set::ticket::~ticket() {
  std::lock_guard lock(set_.mutex_);
  set_.open_.erase(position_);
  if (set_.open_.empty()) set_.emptied_.notify_all();
}

std::shared_ptr<connection_set::ticket> connection_set::add(const std::shared_ptr<connection>& added) {
  auto result = std::make_shared<ticket>(*this);
  std::lock_guard lock(mutex_);
  result->position_ = open_.insert(open_.end(), added);
  return result;
}

void connection_set::replace(ticket& ticket, const std::shared_ptr<connection>& successor) {
  std::lock_guard lock(mutex_);
  *ticket.position_ = successor;
}

std::size_t connection_set::size() const {
  std::lock_guard lock(mutex_);
  return open_.size();
}

std::vector<std::shared_ptr<connection>> connection_set::all() const {
  std::vector<std::shared_ptr<connection>> alive;
  std::lock_guard lock(mutex_);
  for (const auto& weak : open_)
    if (auto one = weak.lock()) alive.push_back(std::move(one));
  return alive;
}

void connection_set::drain_all() {
  for (const auto& one : all()) one->drain();
}

void connection_set::abort_all() {
  for (const auto& one : all()) one->abort();
}

bool connection_set::wait_until_empty(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return emptied_.wait_for(lock, timeout, [this] { return open_.empty(); });
}

} // namespace paceline::server
