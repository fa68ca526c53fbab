#include "server/fault_log.hpp"
#include "tests/support/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace paceline::server {
namespace {

TEST(fault_log, names_each_fault_once) {
  const test::scratch_folder folder;
  const auto path = folder / "events";
  config::logging_options options;
  options.file = path;
  fault_log faults(*event_log::open(options));
  const auto lines = [&] {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const auto num_lines = [&] { return std::ranges::count(lines(), '\n'); };

  faults.tell({});
  EXPECT_EQ(num_lines(), 0);
  engine_fault drafter{"drafter/0/1", "large", "small", "it is broken", 3, false};
  engine_fault scheduler{"scheduler/1", "other", "", "it failed too often", 1, true};
  faults.tell({drafter});
  faults.tell({drafter});
  EXPECT_EQ(num_lines(), 1);
  EXPECT_NE(lines().find("warning a part failed part=drafter/0/1 model=large drafter=small "
                         "reason=\"it is broken\" times=3"),
            std::string::npos)
      << lines();
  faults.tell({drafter, scheduler});
  EXPECT_EQ(num_lines(), 2);
  EXPECT_NE(lines().find("error a part failed for good part=scheduler/1"), std::string::npos) << lines();
  drafter.num += 2;
  faults.tell({drafter, scheduler});
  EXPECT_EQ(num_lines(), 3);
  EXPECT_NE(lines().find("times=2"), std::string::npos) << lines();
}

} // namespace
} // namespace paceline::server
