#include "server/net/io_runtime.hpp"

#include "runtime/base/short_turns.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

namespace paceline::server {

namespace {

class strand_executor final : public serial_executor {
 public:
  strand_executor(std::shared_ptr<io_runtime> runtime, io_strand strand)
      : runtime_(std::move(runtime)), strand_(std::move(strand)) {}
  void post(std::function<void()> task) override {
    if (runtime_->open()) boost::asio::post(strand_, std::move(task));
  }

 private:
  std::shared_ptr<io_runtime> runtime_; // before the strand, which lives in its context
  io_strand strand_;
};

} // namespace

io_runtime::io_runtime(std::size_t num_threads) : guard_(boost::asio::make_work_guard(context_)) {
  for (std::size_t i = 0; i < std::max<std::size_t>(1, num_threads); ++i)
    threads_.emplace_back([this] {
      prefer_short_turns(); // a token written late gains nothing from being computed early
      context_.run();
    });
}

executor_ptr io_runtime::make_executor(io_strand strand) {
  return std::make_shared<strand_executor>(shared_from_this(), std::move(strand));
}

void io_runtime::finish() {
  guard_.reset();
  for (auto& thread : threads_) thread.join();
  open_ = false;
  // Tasks posted after the last run may hold sessions: this releases them.
  context_.restart();
  context_.poll();
}

} // namespace paceline::server
