#include "server/metrics/exposition.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

TEST(exposition, escapes_label_values) {
  exposition out;
  out.gauge("a", "Help.");
  out.sample({{"x", "q\"\\\n"}}, 1);
  EXPECT_EQ(out.take(), "# HELP a Help.\n# TYPE a gauge\na{x=\"q\\\"\\\\\\n\"} 1\n");
}

TEST(exposition, prints_numbers_exactly) {
  exposition out;
  out.counter("c_total", "Help.");
  out.sample({}, 0.1);
  out.sample({}, std::uint64_t{18446744073709551615U});
  EXPECT_NE(out.take().find("c_total 0.1\nc_total 18446744073709551615\n"), std::string::npos);
}

} // namespace
} // namespace paceline::server
