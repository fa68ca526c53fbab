#include "apps/commands/trace_view.hpp"

#include <gtest/gtest.h>

namespace paceline::apps {
namespace {

TEST(trace_view, a_token_is_shown_without_control_characters) {
  trace_view view([](token_id) { return std::string(" a\n\t\x1b[2J\u009b\x7f"); }, false);
  token_event event;
  event.tokens = {token_id{1}};
  event.trace.emplace();
  EXPECT_EQ(view.show(event), "    1       plain |  ␣a\\n\\t\uFFFD[2J\uFFFD\uFFFD\n"); // the sign is a space
}

} // namespace
} // namespace paceline::apps
