#pragma once

#include "server/executor.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

namespace paceline::server {

using io_strand = boost::asio::strand<boost::asio::io_context::executor_type>;

/// The threads that run sockets and sessions. Shared ownership: executors keep the context alive, so a late
/// event of the engine never meets a dangling pointer.
class io_runtime : public std::enable_shared_from_this<io_runtime> {
 public:
  explicit io_runtime(std::size_t num_threads);

  boost::asio::io_context& context() noexcept { return context_; }
  io_strand make_strand() { return boost::asio::make_strand(context_); }
  executor_ptr make_executor(io_strand strand);
  bool open() const noexcept { return open_; }

  /// Lets the threads end once no work is left, and joins them. Later posts are dropped.
  void finish();

 private:
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
  std::atomic<bool> open_{true};
  std::vector<std::thread> threads_;
};

} // namespace paceline::server
