#pragma once

#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

namespace paceline::apps {

/// Runs `work` on a thread of its own and returns its result, which must not be void; nullopt if it takes
/// longer than `patience`. For calls that cannot be cancelled: after the timeout the thread continues until
/// `work` returns, so `work` must own all that it uses. Throws what `work` throws within `patience`; a later
/// exception is dropped. Throws std::system_error if no thread can be started.
template <class Work>
std::optional<std::invoke_result_t<Work&>> result_within(std::chrono::nanoseconds patience, Work work) {
  std::packaged_task<std::invoke_result_t<Work&>()> task(std::move(work));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  if (result.wait_for(patience) != std::future_status::ready) return std::nullopt;
  return result.get();
}

} // namespace paceline::apps
