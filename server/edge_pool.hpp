#pragma once

#include "server/executor.hpp"
#include "server/job_queue.hpp"

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

namespace paceline::server {

/// Threads for work that may take more than a millisecond (parsing, templates, tokenization), so that sockets
/// and actors do not wait for it. Jobs must not throw. The destructor drops jobs that have not begun and
/// joins the threads.
///
/// Large jobs (job_traits::large) may occupy all threads except one. Exception: if the pool has only one
/// thread, it runs large jobs, too. Tenants take turns.
class edge_pool final : public job_pool {
 public:
  edge_pool(std::size_t num_threads, std::size_t max_waiting);
  ~edge_pool() override;

  bool submit(std::function<void()> job, const job_traits& traits) override;

 private:
  void run();

  const std::size_t max_large_; ///< large jobs that may run at the same time
  std::mutex mutex_;
  std::condition_variable wake_;
  job_queue waiting_;
  std::size_t num_large_ = 0; ///< running
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

} // namespace paceline::server
