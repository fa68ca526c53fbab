#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <utility>

namespace paceline::server {

/// Bytes that wait for a client, and when its session may go on. One write is outstanding at a time: `next`
/// moves what it sends out of the queue, `written` says it has gone.
class outbound_queue {
 public:
  explicit outbound_queue(std::size_t bound) : bound_(bound) {}

  void push(std::string bytes) {
    num_bytes_ += bytes.size();
    waiting_.push_back(std::move(bytes));
    congested_ = congested_ || num_bytes_ > bound_;
  }
  bool writing() const noexcept { return writing_; }
  bool empty() const noexcept { return waiting_.empty() && !writing_; }
  bool has_next() const noexcept { return !waiting_.empty(); }

  /// Begins a write of one message.
  const std::string& next_message() {
    begin_write();
    current_ = std::move(waiting_.front());
    waiting_.pop_front();
    return current_;
  }
  /// Begins a write of all that waits, up to about 64 KiB, as one run of bytes.
  const std::string& next_bytes() {
    begin_write();
    current_ = std::move(waiting_.front());
    waiting_.pop_front();
    while (!waiting_.empty() && current_.size() < (64U << 10U)) {
      current_ += waiting_.front();
      waiting_.pop_front();
    }
    return current_;
  }
  /// The write is done. True if the queue has just left congestion: half the bound, so that it does not
  /// flutter.
  bool written() {
    writing_ = false;
    num_bytes_ -= current_.size();
    current_.clear();
    if (!congested_ || num_bytes_ > bound_ / 2) return false;
    congested_ = false;
    return true;
  }
  bool congested() const noexcept { return congested_; }

 private:
  void begin_write() { writing_ = true; }

  std::size_t bound_;
  std::size_t num_bytes_ = 0;
  std::deque<std::string> waiting_;
  std::string current_;
  bool writing_ = false;
  bool congested_ = false;
};

} // namespace paceline::server
