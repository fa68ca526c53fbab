#include "server/metrics/event_desk.hpp"

#include <utility>

namespace paceline::server {

void event_desk::send(const place& to, const std::shared_ptr<const std::string>& text, bool is_last) {
  to.executor->post([weak = to.watcher, text, is_last] {
    if (const auto watcher = weak.lock()) watcher->on_snapshot(text, is_last);
  });
}

void event_desk::forget_gone() {
  std::erase_if(places_, [](const place& one) { return one.watcher.expired(); });
}

bool event_desk::watch(std::weak_ptr<event_watcher> watcher, executor_ptr executor) {
  std::lock_guard lock(mutex_);
  forget_gone();
  if (ended_ || places_.size() >= most_) return false;
  places_.push_back({std::move(watcher), std::move(executor)});
  send(places_.back(), std::make_shared<const std::string>(make_text_(number_)), false);
  return true;
}

bool event_desk::look(std::weak_ptr<event_watcher> watcher, executor_ptr executor) const {
  std::lock_guard lock(mutex_);
  if (ended_) return false;
  send({std::move(watcher), std::move(executor)}, std::make_shared<const std::string>(make_text_(number_)),
       false);
  return true;
}

void event_desk::publish(bool is_last) {
  std::lock_guard lock(mutex_);
  forget_gone();
  ended_ = ended_ || is_last;
  if (places_.empty()) return;
  const auto text = std::make_shared<const std::string>(make_text_(++number_));
  for (const auto& one : places_) send(one, text, is_last);
  if (is_last) places_.clear();
}

std::size_t event_desk::num_watchers() const {
  std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const auto& one : places_) count += one.watcher.expired() ? 0 : 1;
  return count;
}

} // namespace paceline::server
