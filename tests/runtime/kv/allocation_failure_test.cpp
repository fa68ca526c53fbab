#include "runtime/kv/pool_manager.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <new>
#include <utility>

namespace {

/// Allocations left until one fails; negative: none fails.
thread_local std::int64_t countdown = -1;

void* allocate(std::size_t size) {
  if (countdown == 0) throw std::bad_alloc();
  if (countdown > 0) --countdown;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

} // namespace

// Replaced for the whole test program; the pool manager uses only this memory.
void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace paceline::kv {
namespace {

/// Runs requests that share a prefix, and one that needs all memory, one command per step.
std::vector<std::function<bool(pool_manager&)>> script() {
  static constexpr pool_id pool{0};
  static constexpr stream_id stream{1};
  static const std::vector<token_id> prompt(9, token_id{3});
  static const std::string salt(100, 's'); // longer than a string's internal buffer
  static std::array<lease_key, 5> keys;    // by request
  const auto acquire = [](pool_manager& m, std::uint64_t request, const acquire_options& options) {
    const auto answer = m.acquire(pool, request_id{request}, options);
    if (answer) keys[request] = answer->lease.key;
    return answer.has_value();
  };
  return {
      [acquire](pool_manager& m) {
        return acquire(m, 1, {prompt, 9, salt, 16});
      },
      [](pool_manager& m) { return m.commit(keys[1], std::vector(1, token_id{4}), 9).has_value(); },
      [acquire](pool_manager& m) {
        return acquire(m, 2, {prompt, 9, salt, 9});
      },
      [](pool_manager& m) { return m.reserve(keys[2], 60).has_value(); },
      [](pool_manager& m) {
        return m.rollback(keys[2], 12, {stream, 1}).has_value();
      },
      [acquire](pool_manager& m) {
        return acquire(m, 3, {std::span(prompt).first(8), 8, salt, 0});
      },
      [](pool_manager& m) {
        return m.release(keys[1], {stream, 2}).has_value();
      },
      [](pool_manager& m) { return m.on_watermark(stream, 1), true; },
      [](pool_manager& m) {
        return m.release(keys[2], {stream, 3}).has_value();
      },
      [](pool_manager& m) {
        return m.release(keys[3], {stream, 4}).has_value();
      },
      [](pool_manager& m) { return m.on_watermark(stream, 4), true; },
      [](pool_manager& m) { return m.usage(pool).num_cached > 0; },
      [acquire](pool_manager& m) {
        return acquire(m, 4, {prompt, 9, salt, 256, false});
      },
      [](pool_manager& m) { return m.usage(pool).num_cached == 0 && m.usage(pool).num_active == 64; },
      [](pool_manager& m) { return m.release(keys[4], {}).has_value(); },
  };
}

TEST(allocation_failure_test, a_command_without_memory_changes_nothing_and_can_be_repeated) {
  const auto steps = script();
  std::int64_t num_failures = 0;
  for (std::int64_t nth = 0;; ++nth) {
    pool_manager manager(64, make_block_hasher());
    ASSERT_TRUE(manager.add_pool(
        {.name = "p", .num_blocks = 64, .block_size = 4, .block_bytes = 1, .slab_blocks = 4}));
    bool failed = false;
    countdown = nth;
    for (const auto& step : steps) {
      bool done = false;
      try {
        done = step(manager);
      } catch (const std::bad_alloc&) {
        countdown = -1;
        failed = true;
        const auto ok = manager.check_invariants();
        ASSERT_TRUE(ok) << "allocation " << nth << ": " << ok.error().message();
        done = step(manager);
      }
      const auto left = std::exchange(countdown, -1);
      ASSERT_TRUE(done) << "allocation " << nth;
      const auto ok = manager.check_invariants();
      ASSERT_TRUE(ok) << "allocation " << nth << ": " << ok.error().message();
      countdown = left;
    }
    countdown = -1;
    EXPECT_EQ(manager.usage(pool_id{0}).num_absent, 64U) << "allocation " << nth << " leaked blocks";
    if (!failed) break;
    ++num_failures;
  }
  EXPECT_GT(num_failures, 20);
}

} // namespace
} // namespace paceline::kv
