#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace paceline::server {

/// A generation whose client waits for it: one sequence of a request. Its generation_group updates the
/// counters; any thread may read them.
struct running_stream {
  using time_point = std::chrono::steady_clock::time_point;

  std::string model;
  std::uint32_t prompt_tokens = 0;
  time_point arrival; ///< of the request
  std::atomic<std::uint32_t> num_tokens{0};
  std::atomic<std::uint32_t> num_rounds{0}; ///< rounds that committed tokens of this sequence
};

/// The generations that run or wait at the moment. Thread-safe.
class stream_board {
 public:
  using entry = std::shared_ptr<running_stream>;

  entry add(std::string model, std::uint32_t prompt_tokens, running_stream::time_point arrival);
  void remove(const entry& ended);

  std::size_t size() const;
  /// At most `most` entries, the oldest first.
  std::vector<entry> oldest(std::size_t most) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, entry> by_age_;
  std::map<const running_stream*, std::uint64_t> numbers_;
  std::uint64_t next_ = 0;
};

} // namespace paceline::server
