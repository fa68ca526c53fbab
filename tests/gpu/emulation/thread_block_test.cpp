#include "gpu/emulation/thread_block.hpp"

#include "gpu/kernels/intrinsics.cuh"
#include "gpu/kernels/reduce_warp.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>
#include <stdexcept>
#include <vector>

namespace paceline::gpu::emulation {
namespace {

constexpr std::uint32_t num_threads = 128;

float* shared() { return static_cast<float*>(this_thread().shared); }

/// Every thread writes a value, then reads its right neighbour's; repeated, with or without barriers.
std::vector<float> pass_around(std::uint64_t seed, std::uint32_t rounds, bool before_reading,
                               bool before_writing) {
  std::vector<float> seen(num_threads);
  run_grid({1, 1, num_threads, num_threads * sizeof(float)}, seed, [&] {
    const std::uint32_t self = this_thread().index;
    float value = static_cast<float>(self);
    for (std::uint32_t i = 0; i < rounds; ++i) {
      shared()[self] = value;
      if (before_reading) wait_for_block();
      value = shared()[(self + 1) % num_threads];
      if (before_writing) wait_for_block();
    }
    seen[self] = value;
  });
  return seen;
}

std::vector<float> passed_around(std::uint32_t rounds) {
  std::vector<float> expected;
  for (std::uint32_t t = 0; t < num_threads; ++t)
    expected.push_back(static_cast<float>((t + rounds) % num_threads));
  return expected;
}

TEST(thread_block, every_thread_of_every_block_runs_once) {
  std::multiset<std::uint64_t> ran;
  run_grid({3, 2, 64, 0}, 7, [&] {
    const auto& t = this_thread();
    EXPECT_EQ(t.num_threads, 64U);
    ran.insert((std::uint64_t{t.block_y} * 3 + t.block_x) * 64 + t.index);
  });
  ASSERT_EQ(ran.size(), 384U);
  std::uint64_t next = 0;
  for (const auto id : ran) EXPECT_EQ(id, next++);
}

TEST(thread_block, barriers_order_shared_memory_in_every_order_of_threads) {
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(pass_around(seed, 5, true, true), passed_around(5));
}

TEST(thread_block, a_missing_barrier_shows) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_NE(pass_around(seed, 5, false, true), passed_around(5))
        << "read before it was written, seed " << seed;
    EXPECT_NE(pass_around(seed, 5, true, false), passed_around(5))
        << "overwritten before it was read, seed " << seed;
  }
}

TEST(thread_block, orders_differ_between_seeds_and_repeat_with_one) {
  const auto order = [](std::uint64_t seed) {
    std::vector<std::uint32_t> ran;
    run_grid({2, 1, 32, 0}, seed, [&] { ran.push_back(this_thread().block_x * 32 + this_thread().index); });
    return ran;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(thread_block, shared_memory_begins_as_nan_in_every_block) {
  run_grid({4, 1, 32, 32 * sizeof(float)}, 3, [&] {
    EXPECT_TRUE(std::isnan(shared()[this_thread().index]));
    shared()[this_thread().index] = 1;
  });
}

TEST(thread_block, lanes_exchange_values_within_their_warp) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    run_grid({1, 1, num_threads, 0}, seed, [&] {
      const std::uint32_t self = this_thread().index;
      float sum = static_cast<float>(self);
      for (std::uint32_t mask = 16; mask > 0; mask /= 2) sum += show_to_warp(sum)[self % 32 ^ mask];
      EXPECT_EQ(sum, static_cast<float>(self / 32 * 32 * 32 + 31 * 16));
    });
  }
}

TEST(thread_block, a_reduction_is_the_shuffles_that_a_gpu_does) {
  const auto combine = [](float own, float other) { return own * 0.375F + other; }; // depends on every order
  run_grid({1, 1, num_threads, 0}, 4, [&] {
    const auto first = static_cast<float>(this_thread().index * 7 % 31) + 0.1F;
    const auto shuffled = [&](std::uint32_t apart) {
      float value = first;
      for (; apart > 0; apart /= 2) value = combine(value, emulated::shuffle_xor(value, apart));
      return value;
    };
    EXPECT_EQ(emulated::reduce_warp<16>(first, combine), shuffled(16));
    EXPECT_EQ(emulated::reduce_warp<8>(first, combine), shuffled(8));
  });
}

TEST(thread_block, a_barrier_that_not_all_threads_reach_is_a_fault) {
  const grid shape{1, 1, 64, 0};
  EXPECT_THROW(run_grid(shape, 1,
                        [] {
                          if (this_thread().index != 5) wait_for_block();
                        }),
               barrier_fault);
  EXPECT_THROW(run_grid(shape, 1,
                        [] {
                          if (this_thread().index != 5) wait_for_warp();
                        }),
               barrier_fault);
  EXPECT_THROW(run_grid(shape, 1, [] { this_thread().index < 3 ? wait_for_warp() : wait_for_block(); }),
               barrier_fault);
  EXPECT_NO_THROW(run_grid(shape, 1, [] {
    if (this_thread().index < 32) wait_for_warp();
  })); // a whole warp
}

TEST(thread_block, lanes_lay_out_values_for_their_warp) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    run_grid({1, 1, num_threads, 0}, seed, [&] {
      const std::uint32_t self = this_thread().index;
      for (std::uint32_t round = 0; round < 3; ++round) {
        const std::uint32_t value[2] = {self, round};
        const std::byte* const slots = lay_out_in_warp(value, sizeof value);
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
          std::uint32_t seen[2];
          std::memcpy(seen, slots + lane * shared_slot_bytes, sizeof seen);
          EXPECT_EQ(seen[0], self / 32 * 32 + lane);
          EXPECT_EQ(seen[1], round);
        }
      }
    });
  }
}

constexpr std::size_t copy_bytes = 16;

/// What a lane sees of its neighbour's copies, after waiting for all groups except `rest`, with or without a
/// barrier.
std::vector<float> copied_by_neighbours(std::uint64_t seed, std::size_t rest, bool with_barrier) {
  alignas(copy_bytes) static float source[2][32 * 4];
  for (int i = 0; i < 128; ++i)
    source[0][i] = static_cast<float>(i), source[1][i] = static_cast<float>(1000 + i);
  std::vector<float> seen(64);
  run_grid({1, 1, 32, 2 * 32 * copy_bytes}, seed, [&] {
    const std::uint32_t self = this_thread().index, other = (self + 1) % 32;
    for (std::uint32_t part = 0; part < 2; ++part) {
      begin_copy(reinterpret_cast<std::byte*>(shared() + (part * 32 + self) * 4),
                 reinterpret_cast<const std::byte*>(source[part] + self * 4), copy_bytes);
      end_copy_group();
    }
    wait_for_copies(rest);
    if (with_barrier) wait_for_warp();
    for (std::uint32_t part = 0; part < 2; ++part) seen[part * 32 + self] = shared()[(part * 32 + other) * 4];
  });
  return seen;
}

TEST(thread_block, copies_have_arrived_after_the_wait_and_a_barrier_and_not_before) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const auto all = copied_by_neighbours(seed, 0, true), first = copied_by_neighbours(seed, 1, true);
    const auto none = copied_by_neighbours(seed, 2, true), early = copied_by_neighbours(seed, 0, false);
    bool any_missed = false;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      const auto expected = static_cast<float>((lane + 1) % 32 * 4);
      EXPECT_EQ(all[lane], expected);
      EXPECT_EQ(all[32 + lane], 1000 + expected);
      EXPECT_EQ(first[lane], expected);
      EXPECT_TRUE(std::isnan(first[32 + lane])) << "its group was not waited for";
      EXPECT_TRUE(std::isnan(none[lane]) && std::isnan(none[32 + lane]));
      any_missed = any_missed || std::isnan(early[lane]);
    }
    EXPECT_TRUE(any_missed) << "a wait is for the thread's own copies only";
  }
}

TEST(thread_block, a_copy_spoils_what_was_there_when_it_begins) {
  alignas(copy_bytes) static const float source[4] = {1, 2, 3, 4};
  run_grid({1, 1, 32, copy_bytes}, 1, [&] {
    if (this_thread().index != 7) return;
    shared()[0] = 5;
    begin_copy(reinterpret_cast<std::byte*>(shared()), reinterpret_cast<const std::byte*>(source),
               copy_bytes);
    EXPECT_TRUE(std::isnan(shared()[0]));
  });
}

TEST(thread_block, copies_to_elsewhere_or_to_crooked_addresses_are_faults) {
  alignas(copy_bytes) static std::byte source[2 * copy_bytes];
  const auto copy = [&](std::ptrdiff_t to, std::size_t from) {
    run_grid({1, 1, 32, 64}, 1,
             [&] { begin_copy(reinterpret_cast<std::byte*>(shared()) + to, source + from, copy_bytes); });
  };
  EXPECT_NO_THROW(copy(48, 0));
  EXPECT_THROW(copy(64, 0), copy_fault);
  EXPECT_THROW(copy(-16, 0), copy_fault);
  EXPECT_THROW(copy(8, 0), copy_fault);
  EXPECT_THROW(copy(16, 4), copy_fault);
}

TEST(thread_block, what_a_thread_throws_comes_out) {
  const auto body = [] {
    wait_for_block();
    if (this_thread().index == 40) throw std::runtime_error("thread 40");
    wait_for_block();
  };
  EXPECT_THROW(run_grid({1, 1, 64, 0}, 1, body), std::runtime_error);
  EXPECT_EQ(pass_around(1, 2, true, true), passed_around(2)) << "and leaves nothing behind";
}

/// Blocks that run together: each writes a value, then reads that of the next block; repeated.
std::vector<int> pass_along(std::uint64_t seed, std::uint32_t num_blocks, std::uint32_t rounds,
                            bool before_reading, bool before_writing) {
  std::vector<int> values(num_blocks), seen(num_blocks);
  std::uint32_t arrived = 0;
  run_together({num_blocks, 1, 64, 0}, seed, [&] {
    const std::uint32_t self = this_thread().block_x;
    std::uint32_t num_met = 0;
    int value = static_cast<int>(self);
    for (std::uint32_t i = 0; i < rounds; ++i) {
      if (this_thread().index == 5) values[self] = value;
      if (before_reading) emulated::sync_grid(&arrived, ++num_met * num_blocks);
      value = values[(self + 1) % num_blocks];
      if (before_writing) emulated::sync_grid(&arrived, ++num_met * num_blocks);
    }
    if (this_thread().index == 9) seen[self] = value;
  });
  return seen;
}

TEST(thread_block, blocks_that_run_together_meet) {
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(pass_along(seed, 3, 4, true, true), (std::vector<int>{1, 2, 0})) << seed;
  EXPECT_EQ(pass_along(1, 1, 4, true, true), std::vector<int>{0});
}

TEST(thread_block, a_missing_meeting_of_the_grid_shows) {
  int num_seen[2] = {};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    num_seen[0] += pass_along(seed, 3, 4, false, true) != std::vector<int>{1, 2, 0} ? 1 : 0;
    num_seen[1] += pass_along(seed, 3, 4, true, false) != std::vector<int>{1, 2, 0} ? 1 : 0;
  }
  EXPECT_GT(num_seen[0], 15) << "read before it was written";
  EXPECT_GT(num_seen[1], 15) << "overwritten before it was read";
}

TEST(thread_block, a_grid_that_not_all_can_meet_is_a_fault) {
  EXPECT_THROW(run_grid({2, 1, 32, 0}, 1, [] { wait_for_grid(); }), barrier_fault) << "not launched together";
  EXPECT_THROW(run_together({2, 1, 32, 0}, 1,
                            [] {
                              if (this_thread().block_x == 0) wait_for_grid();
                            }),
               barrier_fault)
      << "a block has returned";
  EXPECT_THROW(run_together({2, 1, 64, 0}, 1,
                            [] {
                              if (this_thread().index < 63) wait_for_grid();
                            }),
               barrier_fault)
      << "a thread has returned";
  EXPECT_THROW(run_together({2, 1, 64, 0}, 1,
                            [] {
                              if (this_thread().index < 63)
                                wait_for_grid();
                              else
                                wait_for_block();
                            }),
               barrier_fault)
      << "a thread waits for its block";
}

TEST(thread_block, a_grid_is_as_many_blocks_as_are_counted) {
  for (const std::uint32_t due : {1U, 3U}) {
    std::uint32_t arrived = 0;
    EXPECT_THROW(run_together({2, 1, 32, 0}, 1, [&] { emulated::sync_grid(&arrived, due); }), barrier_fault);
  }
}

/// Blocks, threads and a log of their events.
struct turn_log {
  std::uint32_t num_begun = 0, num_ended = 0;
  bool is_ahead = true; ///< the preceding kernel has not ended
};

TEST(thread_block, blocks_that_start_early_stop_where_they_wait_for_the_kernel_ahead) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    turn_log log;
    grid_run run({5, 2, 64, 64 * sizeof(float)}, seed, [&] {
      const std::uint32_t self = this_thread().index;
      ++log.num_begun;
      shared()[self] = static_cast<float>(self);
      if (self < 32) wait_for_previous(); // meanwhile the others are at a barrier
      wait_for_block();
      EXPECT_FALSE(log.is_ahead);
      if (self >= 32) wait_for_previous();
      EXPECT_EQ(shared()[63 - self], static_cast<float>(63 - self));
      ++log.num_ended;
    });
    run.start_early(2);
    EXPECT_EQ(log.num_begun, 2 * 64U);
    EXPECT_EQ(log.num_ended, 0U);
    log.is_ahead = false;
    run.finish();
    EXPECT_EQ(log.num_begun, 10 * 64U);
    EXPECT_EQ(log.num_ended, 10 * 64U);
  }
}

TEST(thread_block, a_thread_that_returns_without_its_turn_is_a_fault_in_every_block) {
  const auto all_but_one = [](std::uint32_t block) {
    return [block] {
      if (this_thread().block_x != block || this_thread().index != 17) wait_for_previous();
    };
  };
  for (std::uint32_t num_early = 0; num_early < 4; ++num_early)
    for (std::uint32_t block = 0; block < 3; ++block) {
      grid_run run({3, 1, 32, 0}, 1, all_but_one(block));
      EXPECT_THROW((run.start_early(num_early), run.finish()), barrier_fault) << num_early << " " << block;
    }
  EXPECT_NO_THROW(run_grid({3, 1, 32, 0}, 1, [] {})) << "nothing is ahead of it";
}

TEST(thread_block, copies_begun_early_are_of_what_lay_there_and_arrive_late) {
  alignas(copy_bytes) static float source[4];
  for (const std::uint32_t num_early : {0U, 1U}) {
    source[0] = 1;
    grid_run run({1, 1, 32, copy_bytes}, 1, [] {
      if (this_thread().index == 0) {
        begin_copy(reinterpret_cast<std::byte*>(shared()), reinterpret_cast<const std::byte*>(source),
                   copy_bytes);
        end_copy_group();
      }
      wait_for_previous();
      if (this_thread().index != 0) return;
      EXPECT_TRUE(std::isnan(shared()[0]));
      wait_for_copies(0);
      source[1] = shared()[0];
    });
    run.start_early(num_early);
    source[0] = 2; // written by the preceding kernel
    run.finish();
    EXPECT_EQ(source[1], num_early == 1 ? 1 : 2);
  }
}

} // namespace
} // namespace paceline::gpu::emulation
