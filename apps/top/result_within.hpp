#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

namespace paceline::apps {

/// Runs `work` on a thread of its own and returns its result, which must not be void. Returns nullopt if
/// `work` takes longer than `patience`, or once `wants_end`, which is asked 20 times a second, returns true.
/// For calls that cannot be cancelled: the thread then continues until `work` returns, so `work` must own all
/// that it uses. Passes on an exception of `work`, unless nullopt was returned before. Throws
/// std::system_error if no thread can be started.
template <class Work>
std::optional<std::invoke_result_t<Work&>> result_within(std::chrono::nanoseconds patience, Work work,
                                                         const std::function<bool()>& wants_end = {}) {
  constexpr std::chrono::milliseconds step{50};
  std::packaged_task<std::invoke_result_t<Work&>()> task(std::move(work));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  const auto end = std::chrono::steady_clock::now() + patience;
  for (auto now = end - patience; now < end; now = std::chrono::steady_clock::now()) {
    if (wants_end && wants_end()) return std::nullopt;
    const auto next = wants_end ? std::min<std::chrono::steady_clock::time_point>(end, now + step) : end;
    if (result.wait_until(next) == std::future_status::ready) return result.get();
  }
  return std::nullopt;
}

} // namespace paceline::apps
