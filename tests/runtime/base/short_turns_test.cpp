#include "runtime/base/short_turns.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/utsname.h>

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

TEST(short_turns, are_the_calling_threads_alone_and_leave_its_niceness) {
  if (!kernel_has_turns()) GTEST_SKIP() << "Linux before 6.12 has turns of one length";
  std::chrono::nanoseconds asked{}, beside{};
  int niceness = 0;
  std::thread([&] {
    setpriority(PRIO_PROCESS, 0, 5); // of the thread
    prefer_short_turns();
    asked = preferred_turn();
    niceness = getpriority(PRIO_PROCESS, 0);
  }).join();
  std::thread([&] { beside = preferred_turn(); }).join();
  EXPECT_EQ(asked, short_turn);
  EXPECT_EQ(niceness, 5);
  EXPECT_NE(beside, short_turn);
}

} // namespace
} // namespace paceline
