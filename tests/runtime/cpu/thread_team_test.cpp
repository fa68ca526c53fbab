#include "runtime/cpu/thread_team.hpp"

#include "runtime/base/check.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace paceline::cpu {
namespace {

using namespace std::chrono_literals;

thread_team::options team_of(std::uint32_t num_threads, std::chrono::microseconds spin = 100us) {
  thread_team::options opts;
  opts.num_threads = num_threads;
  opts.spin = spin;
  return opts;
}

TEST(thread_team, runs_every_chunk_exactly_once) {
  for (const std::uint32_t num_threads : {1U, 2U, 5U}) {
    thread_team team(team_of(num_threads));
    for (const std::uint32_t num_chunks : {0U, 1U, 2U, 3U, 17U, 1000U}) {
      std::vector<int> calls(num_chunks, 0); // plain ints: the team must order them for the caller
      team.parallel_for(num_chunks, [&](std::uint32_t chunk, std::uint32_t) { ++calls[chunk]; });
      EXPECT_EQ(calls, std::vector<int>(num_chunks, 1))
          << num_threads << " threads, " << num_chunks << " chunks";
    }
  }
}

TEST(thread_team, loops_back_to_back_do_not_mix) {
  thread_team team(team_of(3));
  std::vector<std::uint32_t> sums(7, 0);
  for (std::uint32_t loop = 0; loop < 20000; ++loop) {
    const std::uint32_t num_chunks = 1 + loop % 7;
    team.parallel_for(num_chunks, [&sums, loop](std::uint32_t chunk, std::uint32_t) { sums[chunk] += loop; });
  }
  std::vector<std::uint32_t> expected(7, 0);
  for (std::uint32_t loop = 0; loop < 20000; ++loop)
    for (std::uint32_t chunk = 0; chunk < 1 + loop % 7; ++chunk) expected[chunk] += loop;
  EXPECT_EQ(sums, expected);
}

TEST(thread_team, wakes_members_that_have_parked) {
  thread_team team(team_of(3, 0us)); // members and the caller park at once
  for (std::uint32_t loop = 1; loop <= 300; ++loop) {
    std::atomic<std::uint32_t> num_inside{0};
    team.parallel_for(3, [&](std::uint32_t, std::uint32_t) { // ends only if three members participate
      ++num_inside;
      while (num_inside < 3) std::this_thread::yield();
    });
    EXPECT_EQ(num_inside, 3U);
  }
}

TEST(thread_team, members_that_run_together_have_distinct_numbers) {
  thread_team team(team_of(4));
  std::vector<std::atomic<int>> inside(4);
  std::atomic<int> num_shared{0};
  team.parallel_for(4000, [&](std::uint32_t, std::uint32_t member) {
    if (inside[member].fetch_add(1) != 0) ++num_shared;
    inside[member].fetch_sub(1);
  });
  EXPECT_EQ(num_shared, 0);
}

TEST(thread_team, a_loop_may_start_before_the_members_have) {
  for (int round = 0; round < 100; ++round) {
    thread_team team(team_of(3));
    std::vector<int> calls(5, 0);
    team.parallel_for(5, [&](std::uint32_t chunk, std::uint32_t) { ++calls[chunk]; });
    EXPECT_EQ(calls, std::vector<int>(5, 1));
  }
}

TEST(thread_team, rethrows_a_chunks_exception_and_stays_usable) {
  for (const std::uint32_t num_threads : {1U, 3U}) {
    thread_team team(team_of(num_threads));
    for (int round = 0; round < 50; ++round) {
      EXPECT_THROW(team.parallel_for(100,
                                     [](std::uint32_t chunk, std::uint32_t) {
                                       if (chunk == 7) throw std::runtime_error("chunk seven");
                                     }),
                   std::runtime_error);
      std::vector<int> calls(10, 0);
      team.parallel_for(10, [&](std::uint32_t chunk, std::uint32_t) { ++calls[chunk]; });
      EXPECT_EQ(calls, std::vector<int>(10, 1));
    }
  }
}

TEST(thread_team, refuses_a_loop_inside_a_loop) {
  thread_team team(team_of(1));
  EXPECT_THROW(
      team.parallel_for(2, [&](std::uint32_t,
                               std::uint32_t) { team.parallel_for(2, [](std::uint32_t, std::uint32_t) {}); }),
      check_failure);
}

TEST(thread_team, a_member_runs_an_errand_beside_the_caller) {
  thread_team team(team_of(2, 10s)); // awake
  struct errand {
    std::thread::id by;
    std::atomic<bool> done{false};
  } seen;
  const auto note = [](void* context) noexcept {
    auto& one = *static_cast<errand*>(context);
    one.by = std::this_thread::get_id();
    one.done = true;
  };
  ASSERT_TRUE(team.leave_errand(note, &seen));
  while (!seen.done) std::this_thread::yield(); // the caller is busy with something else
  team.finish_errand();
  EXPECT_NE(seen.by, std::this_thread::get_id());
}

TEST(thread_team, every_errand_is_run_once_before_the_next) {
  for (const auto spin : {0us, 5us, 1000us})
    for (const std::uint32_t num_threads : {1U, 2U, 4U}) {
      thread_team team(team_of(num_threads, spin));
      std::uint32_t num_run = 0; // a plain int: the team must order errands for the caller
      std::vector<std::uint32_t> calls(3, 0);
      const auto count = [](void* context) noexcept { ++*static_cast<std::uint32_t*>(context); };
      for (std::uint32_t round = 0; round < 3000; ++round) {
        if (!team.leave_errand(count, &num_run)) ++num_run;
        if (round % 3 != 0)
          team.parallel_for(round % 3 + 1, [&](std::uint32_t chunk, std::uint32_t) { ++calls[chunk]; });
        team.finish_errand();
        ASSERT_EQ(num_run, round + 1) << num_threads << " threads";
      }
      EXPECT_EQ(calls, (std::vector<std::uint32_t>{2000, 2000, 1000})) << num_threads << " threads";
    }
}

TEST(thread_team, a_team_of_one_has_nobody_for_errands) {
  thread_team team(team_of(1));
  EXPECT_FALSE(team.leave_errand([](void*) noexcept {}, nullptr));
  team.finish_errand();
}

TEST(thread_team, accepts_cores_it_may_not_have) {
  auto opts = team_of(3);
  opts.cpus = {0, 100000};
  thread_team team(opts);
  std::vector<int> calls(8, 0);
  team.parallel_for(8, [&](std::uint32_t chunk, std::uint32_t) { ++calls[chunk]; });
  EXPECT_EQ(calls, std::vector<int>(8, 1));
}

} // namespace
} // namespace paceline::cpu
