#include "server/net/io_runtime.hpp"

#include "runtime/base/short_turns.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

namespace paceline::server {

namespace {

class strand_executor final : public serial_executor {
 public:
  strand_executor(std::shared_ptr<io_runtime> runtime, io_strand strand)
      : runtime_(std::move(runtime)), strand_(std::move(strand)) {}
  void post(std::function<void()> task) override { runtime_->post(strand_, std::move(task)); }

 private:
  std::shared_ptr<io_runtime> runtime_; // before the strand, which lives in its context
  io_strand strand_;
};

} // namespace

io_runtime::io_runtime(std::size_t num_threads) : guard_(boost::asio::make_work_guard(context_)) {
  for (std::size_t i = 0; i < std::max<std::size_t>(1, num_threads); ++i)
    threads_.emplace_back([this] {
      prefer_short_turns(); // these threads gain nothing from long time slices, and a late token is bad
      context_.run();
    });
}

executor_ptr io_runtime::make_executor(io_strand strand) {
  return std::make_shared<strand_executor>(shared_from_this(), std::move(strand));
}

void io_runtime::post(const io_strand& strand, std::function<void()> task) {
  const std::shared_lock lock(closing_); // a task is posted either before the closing, or sees the closing
  if (is_open_) boost::asio::post(strand, std::move(task));
}

void io_runtime::finish() {
  guard_.reset();
  for (auto& thread : threads_) thread.join();
  {
    const std::unique_lock lock(closing_);
    is_open_ = false;
  }
  // A queued task may hold a session. The session holds an executor, which owns this runtime and so the
  // queue. Running the tasks that were posted after the threads' last turn breaks this cycle.
  context_.restart();
  context_.poll();
}

} // namespace paceline::server
