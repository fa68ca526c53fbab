#include "server/edge_pool.hpp"

#include <algorithm>
#include <utility>

namespace paceline::server {

edge_pool::edge_pool(std::size_t num_threads, std::size_t max_waiting)
    : max_large_(std::max<std::size_t>(2, num_threads) - 1), waiting_(max_waiting) {
  for (std::size_t i = 0; i < std::max<std::size_t>(1, num_threads); ++i)
    threads_.emplace_back([this] { run(); });
}

edge_pool::~edge_pool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    waiting_.clear();
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

bool edge_pool::submit(std::function<void()> job, const job_traits& traits) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || !waiting_.push(std::move(job), traits)) return false;
  }
  wake_.notify_one();
  return true;
}

void edge_pool::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    std::optional<job_queue::job> next;
    wake_.wait(lock, [&] { return stopping_ || (next = waiting_.pop(num_large_ < max_large_)); });
    if (stopping_) return;
    if (next->large) ++num_large_;
    lock.unlock();
    next->run();
    const bool was_large = next->large;
    next.reset(); // releases what the job holds before taking the lock
    lock.lock();
    if (!was_large) continue;
    --num_large_;
    wake_.notify_one(); // a thread that looked earlier may have left a large job in the queue
  }
}

} // namespace paceline::server
