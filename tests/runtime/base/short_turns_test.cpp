#include "runtime/base/short_turns.hpp"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

namespace paceline {
namespace {

bool kernel_has_turns() {
  utsname name{};
  if (uname(&name) != 0) return false;
  char* rest = nullptr;
  const auto major = std::strtol(name.release, &rest, 10);
  const auto minor = *rest == '.' ? std::strtol(rest + 1, nullptr, 10) : 0;
  return major > 6 || (major == 6 && minor >= 12);
}

/// Takes away a root thread's right to change niceness, so that it is like a thread of another user.
void drop_rights_of_this_thread() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2]{};
  (void)syscall(SYS_capset, &header, none); // for the calling thread only
}

/// Returns what a new thread gets, which starts at niceness 5.
template <class Ask>
int niceness_after(Ask ask) {
  int niceness = 0;
  std::thread([&] {
    setpriority(PRIO_PROCESS, 0, 5); // for the calling thread
    ask();
    niceness = getpriority(PRIO_PROCESS, 0);
  }).join();
  return niceness;
}

TEST(short_turns, are_the_calling_threads_alone) {
  if (!kernel_has_turns()) GTEST_SKIP() << "Linux before 6.12 has turns of one length";
  std::chrono::nanoseconds asked{}, beside{};
  std::thread([&] {
    prefer_short_turns();
    asked = preferred_turn();
  }).join();
  std::thread([&] { beside = preferred_turn(); }).join();
  EXPECT_EQ(asked, short_turn);
  EXPECT_NE(beside, short_turn);
}

TEST(short_turns, weigh_more_where_the_process_may_and_else_as_before) {
  const int wanted = 5 - short_turn_niceness;
  const int possible = niceness_after([&] { setpriority(PRIO_PROCESS, 0, wanted); }); // 5 without the right
  EXPECT_EQ(niceness_after([] { prefer_short_turns(); }), possible);
}

TEST(short_turns, do_without_the_weight_where_the_process_may_not) {
  rlimit before{};
  getrlimit(RLIMIT_NICE, &before);
  std::chrono::nanoseconds asked{};
  int niceness = 0;
  std::thread([&] {
    setpriority(PRIO_PROCESS, 0, 5);
    drop_rights_of_this_thread();
    prefer_short_turns();
    asked = preferred_turn();
    niceness = getpriority(PRIO_PROCESS, 0);
  }).join();
  if (before.rlim_cur >= 20) GTEST_SKIP() << "every process may do it here";
  EXPECT_EQ(niceness, 5);
  if (kernel_has_turns()) {
    EXPECT_EQ(asked, short_turn);
  }
}

} // namespace
} // namespace paceline
