#include "server/sessions/response_registry.hpp"

#include "scripted_backend.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace paceline::server {
namespace {

constexpr std::size_t num_keys = 2;

/// A registry with places for 16 resumable responses.
struct registry_of_16 {
  std::shared_ptr<queue_executor> executor = std::make_shared<queue_executor>();
  response_registry responses{16, std::chrono::seconds(60)};
  int num_added = 0;

  bool add(const std::string& key, bool resumable) {
    auto log = resumable ? std::make_shared<replay_log>(1000) : nullptr;
    return responses.add(std::to_string(num_added++), {key, executor, {}, nullptr, std::move(log)}, num_keys);
  }
};

TEST(response_registry, one_key_cannot_take_all_places_of_resumable_responses) {
  registry_of_16 of;
  std::size_t num_taken = 0;
  while (num_taken < 16 && of.add("greedy", true)) ++num_taken;
  EXPECT_EQ(num_taken, 12U) << "all but the other key's share";
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(of.add("modest", true)) << i;
  EXPECT_FALSE(of.add("modest", true));
  EXPECT_EQ(of.responses.num_resumable(), 16U);
}

TEST(response_registry, responses_that_are_not_kept_need_no_place) {
  registry_of_16 of;
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(of.add("greedy", false));
  EXPECT_EQ(of.responses.num_resumable(), 0U);
}

TEST(response_registry, a_dropped_response_gives_its_keys_place_back) {
  registry_of_16 of;
  while (of.add("greedy", true)) {
  }
  of.responses.evict("0");
  EXPECT_TRUE(of.add("greedy", true));
  EXPECT_FALSE(of.add("greedy", true));
}

} // namespace
} // namespace paceline::server
