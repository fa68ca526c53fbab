#pragma once

#include "server/executor.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <shared_mutex>
#include <thread>
#include <vector>

namespace paceline::server {

using io_strand = boost::asio::strand<boost::asio::io_context::executor_type>;

/// The threads that run sockets and sessions. Executors share ownership of the runtime, so the runtime still
/// exists when the engine posts a late event. `finish` must be called once before the last owner is
/// destroyed, and not on one of the runtime's threads.
class io_runtime : public std::enable_shared_from_this<io_runtime> {
 public:
  explicit io_runtime(std::size_t num_threads);

  boost::asio::io_context& context() noexcept { return context_; }
  io_strand make_strand() { return boost::asio::make_strand(context_); }
  executor_ptr make_executor(io_strand strand);
  /// Runs the task on the strand; drops it if `finish` has closed the runtime. Callable on any thread.
  void post(const io_strand& strand, std::function<void()> task);

  /// Lets the threads end when no work is left, joins them, and closes the runtime: tasks posted later are
  /// dropped. Tasks posted before are run, the last of them possibly on the calling thread.
  void finish();

 private:
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
  std::shared_mutex closing_; ///< held shared by each `post`, and exclusively to change `is_open_`
  bool is_open_ = true;
  std::vector<std::thread> threads_;
};

} // namespace paceline::server
