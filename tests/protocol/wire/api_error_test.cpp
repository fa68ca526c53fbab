#include "protocol/wire/api_error.hpp"

#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

TEST(api_error, prints_openais_error_object) {
  EXPECT_EQ(
      to_json(invalid_value("n", "n: too large")),
      R"({"error":{"message":"n: too large","type":"invalid_request_error","param":"n","code":"invalid_value"}})");
  EXPECT_EQ(to_json(api_error{401, "authentication_error", "", "no", "", 0}),
            R"({"error":{"message":"no","type":"authentication_error","param":null,"code":null}})");
}

TEST(api_error, frames_carry_status_and_lane) {
  EXPECT_EQ(
      to_error_frame(unsupported("a", "m"), "s"),
      R"({"type":"error","status":400,"stream_id":"s","error":{"message":"m","type":"invalid_request_error","param":"a","code":"unsupported_parameter"}})");
  EXPECT_EQ(to_error_frame(unsupported("a", "m"), "").find("stream_id"), std::string::npos);
}

TEST(api_error, an_event_has_its_members_flat_and_nested) {
  EXPECT_EQ(
      to_error_event(unsupported("a", "m"), 7),
      R"({"type":"error","sequence_number":7,"code":"unsupported_parameter","message":"m","param":"a","status":400,)"
      R"("error":{"message":"m","type":"invalid_request_error","param":"a","code":"unsupported_parameter"}})");
}

TEST(api_error, every_runtime_error_has_a_status_and_internals_stay_inside) {
  for (int value = 1; value <= static_cast<int>(errc::state_slots_full); ++value) {
    const auto failure = from_error(error{static_cast<errc>(value), "at 0x7fff1234 in /home/x"});
    EXPECT_GE(failure.status, 400) << value;
    EXPECT_LT(failure.status, 600) << value;
    EXPECT_FALSE(failure.type.empty()) << value;
    if (failure.status >= 500 && failure.code != "draining" && failure.code != "pool_full" &&
        failure.code != "state_slots_full" && failure.code != "resource_exhausted") {
      EXPECT_EQ(failure.message.find("0x"), std::string::npos) << value;
    }
  }
  EXPECT_EQ(from_error(error{errc::queue_full, ""}).status, 429);
  EXPECT_GT(from_error(error{errc::queue_full, ""}).retry_after_seconds, 0);
}

} // namespace
} // namespace paceline::wire
