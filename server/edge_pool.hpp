#pragma once

#include "server/executor.hpp"

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace paceline::server {

/// Threads for host work above a millisecond (parsing, templates, tokenization), so that neither sockets nor
/// actors wait for it. Jobs must not throw. Destruction drops what has not begun and joins.
class edge_pool final : public job_pool {
 public:
  edge_pool(std::size_t num_threads, std::size_t max_waiting);
  ~edge_pool() override;

  bool submit(std::function<void()> job) override;

 private:
  void run();

  const std::size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

} // namespace paceline::server
