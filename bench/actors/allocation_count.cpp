#include "bench/actors/allocation_count.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace paceline::bench {

namespace {

std::atomic<std::uint64_t> num_on_actor_threads{0};
std::atomic<std::uint64_t> num_elsewhere{0};
thread_local bool on_actor_thread = false;

void* allocate(std::size_t num_bytes, std::size_t alignment) {
  (on_actor_thread ? num_on_actor_threads : num_elsewhere).fetch_add(1, std::memory_order_relaxed);
  const std::size_t whole =
      (num_bytes + alignment - 1) / alignment * alignment; // aligned_alloc wants multiples
  void* const memory = alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
                           ? std::malloc(num_bytes == 0 ? 1 : num_bytes)
                           : std::aligned_alloc(alignment, whole);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

} // namespace

allocation_counts count_allocations() noexcept {
  return {num_on_actor_threads.load(std::memory_order_relaxed),
          num_elsewhere.load(std::memory_order_relaxed)};
}

void mark_actor_thread() noexcept { on_actor_thread = true; }

} // namespace paceline::bench

// The other forms call these.
void* operator new(std::size_t num_bytes) { return paceline::bench::allocate(num_bytes, 1); }
void* operator new(std::size_t num_bytes, std::align_val_t alignment) {
  return paceline::bench::allocate(num_bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
