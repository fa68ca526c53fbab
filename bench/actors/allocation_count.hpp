#pragma once

#include <cstdint>

/// Calls of `operator new` in this process, all forms of it, apart for threads that run actors. Linking
/// allocation_count.cpp replaces the operators.
namespace paceline::bench {

struct allocation_counts {
  std::uint64_t on_actor_threads = 0;
  std::uint64_t elsewhere = 0; ///< streams' threads and the main one
};
allocation_counts count_allocations() noexcept;

/// Called on a thread of the actor system when it starts.
void mark_actor_thread() noexcept;

} // namespace paceline::bench
