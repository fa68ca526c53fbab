#include "runtime/cpu/program_queues.hpp"

#include "runtime/cpu/spin_wait.hpp"

#include <algorithm>

namespace paceline::cpu {

namespace {

bool is_ready(const stream_queue& queue) {
  return !queue.waiting.empty() && queue.waiting.front()->num_unmet == 0;
}

} // namespace

std::shared_ptr<stream_queue> program_queues::open(device::stream_options options) {
  auto queue = std::make_shared<stream_queue>();
  queue->options = std::move(options);
  std::lock_guard lock(mutex_);
  turns_.add_stream(queue->options.tenant);
  queues_.push_back(queue);
  return queue;
}

void program_queues::close(const std::shared_ptr<stream_queue>& queue) {
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [&] { return queue->waiting.empty() && queue->num_running == 0; });
  std::erase(queues_, queue);
  turns_.remove_stream(queue->options.tenant);
}

void program_queues::push(stream_queue& queue, std::shared_ptr<queued_work> item) {
  item->queue = &queue;
  item->num_unmet = item->after.size() + 1;
  const std::vector<device::fence> after =
      item->after; // a copy: the item may be taken, and end, before the loop below ends
  {
    std::lock_guard lock(mutex_);
    item->order = ++num_pushed_;
    ++queue.num_submitted;
    queue.waiting.push_back(item);
  }
  for (const auto& fence : after) fence.when_passed([self = shared_from_this(), item] { self->meet(*item); });
  meet(*item);
}

std::uint64_t program_queues::num_submitted(const stream_queue& queue) const {
  std::lock_guard lock(mutex_);
  return queue.num_submitted;
}

taken_work program_queues::take(std::chrono::microseconds idle_spin) {
  for (;;) {
    const std::uint64_t seen = num_signals_.load(std::memory_order_acquire);
    {
      std::lock_guard lock(mutex_);
      if (auto taken = take_ready()) return taken;
      if (stopping_) return {};
    }
    const auto signalled = [&] { return num_signals_.load(std::memory_order_acquire) != seen; };
    if (spin_until(idle_spin, signalled)) continue;
    std::unique_lock lock(mutex_);
    ready_.wait(lock, signalled);
  }
}

taken_work program_queues::take_at_once() {
  std::lock_guard lock(mutex_);
  for (const auto& queue : queues_)
    if (!queue->waiting.empty() && queue->waiting.front()->num_unmet > 0) return {};
  return take_ready();
}

taken_work program_queues::take_before(std::chrono::nanoseconds computed) {
  std::lock_guard lock(mutex_);
  turns_.charge(begun_.back(), computed);
  return take_ready();
}

void program_queues::end(stream_queue& queue, std::chrono::nanoseconds computed,
                         std::chrono::nanoseconds total) {
  const auto now = std::chrono::steady_clock::now();
  std::lock_guard lock(mutex_);
  const auto tenant = begun_.back();
  turns_.charge(tenant, computed);
  queue.last_time = total;
  begun_.pop_back();
  if (!has_ready(tenant)) turns_.leave(tenant, now);
  look_for_others();
}

void program_queues::complete(stream_queue& queue, queued_work& item, std::optional<error> failure) {
  queue.num_completed.fetch_add(1, std::memory_order_release);
  item.work = nullptr; // releases what the program holds before its end is reported
  item.done->pass(std::move(failure));
  std::lock_guard lock(mutex_);
  --queue.num_running;
  drained_.notify_all();
}

void program_queues::stop() {
  std::lock_guard lock(mutex_);
  stopping_ = true;
  signal();
}

void program_queues::meet(queued_work& item) {
  const auto now = std::chrono::steady_clock::now();
  std::lock_guard lock(mutex_);
  if (--item.num_unmet > 0) return;
  if (item.queue->waiting.front().get() == &item) {
    turns_.enter(item.queue->options.tenant, now);
    look_for_others();
  }
  signal();
}

void program_queues::signal() {
  num_signals_.fetch_add(1, std::memory_order_release);
  ready_.notify_one();
}

bool program_queues::has_ready(device::tenant_id tenant) const {
  return std::ranges::any_of(queues_,
                             [&](const auto& q) { return q->options.tenant == tenant && is_ready(*q); });
}

bool program_queues::has_begun(device::tenant_id tenant) const {
  return std::ranges::find(begun_, tenant) != begun_.end();
}

void program_queues::look_for_others() {
  const bool others = !begun_.empty() && std::ranges::any_of(queues_, [&](const auto& q) {
    return is_ready(*q) && !has_begun(q->options.tenant);
  });
  others_wait_.store(others, std::memory_order_relaxed);
}

void program_queues::mark_overtaken(const stream_queue& taken, std::uint64_t order) {
  for (auto& queue : queues_)
    if (queue->options.tenant == taken.options.tenant && is_ready(*queue) &&
        queue->waiting.front()->order < order)
      queue->overtaken = true;
}

taken_work program_queues::take_ready() {
  candidates_.clear(), candidate_queues_.clear();
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    const auto& queue = *queues_[i];
    if (!is_ready(queue)) continue;
    const auto& options = queue.options;
    candidates_.push_back(
        {options.tenant, options.priority, queue.waiting.front()->order, queue.last_time, queue.overtaken});
    candidate_queues_.push_back(i);
  }
  const auto next = turns_.next(candidates_, begun_);
  if (!next) return {};
  taken_work taken{queues_[candidate_queues_[*next]], {}};
  taken.item = std::move(taken.from->waiting.front());
  taken.from->waiting.pop_front();
  taken.from->overtaken = false;
  mark_overtaken(*taken.from, taken.item->order);
  ++taken.from->num_running;
  begun_.push_back(taken.from->options.tenant);
  look_for_others();
  return taken;
}

} // namespace paceline::cpu
