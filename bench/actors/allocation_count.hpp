#pragma once

#include <cstdint>

/// Counts of calls of `operator new` (all forms) in this process, separately for threads that run actors and
/// other threads. Linking allocation_count.cpp replaces the operators.
namespace paceline::bench {

struct allocation_counts {
  std::uint64_t on_actor_threads = 0;
  std::uint64_t elsewhere = 0; ///< on streams' threads and the main thread
};
allocation_counts count_allocations() noexcept;

/// Called on a thread of the actor system when the thread starts.
void mark_actor_thread() noexcept;

} // namespace paceline::bench
