#include "server/sessions/response_store.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

using std::chrono::seconds;

constexpr store_limits roomy{100, 1U << 20U, seconds(60)};
constexpr time_point start{};

std::shared_ptr<kept_memory> unbounded() { return std::make_shared<kept_memory>(kept_memory::no_bound); }

finished_response response(std::string id, std::size_t bytes = 1) {
  finished_response finished;
  finished.id = std::move(id);
  finished.object = wire::output_json("{}", {});
  finished.conversation = {{"user", std::string(bytes, 'x'), "", {}, ""}};
  return finished;
}

TEST(response_store, shows_each_tenant_its_own) {
  const auto store = std::make_shared<response_store>(roomy, unbounded());
  store->put("a", response("r", 3), start);
  const auto found = store->find("r", "a", start);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->object.text(), "{}");
  EXPECT_EQ(found->conversation.at(0).content, "xxx");
  EXPECT_FALSE(store->find("r", "b", start));
  EXPECT_FALSE(store->find("r", "", start));
  EXPECT_FALSE(store->find("other", "a", start));
}

TEST(response_store, finds_the_items_of_an_output) {
  const auto store = std::make_shared<response_store>(roomy, unbounded());
  auto finished = response("resp_1");
  const auto add = [&](wire::response_part::kind what, std::string id) {
    auto item = std::make_shared<wire::response_part>();
    item->what = what;
    item->id = std::move(id);
    item->text = what == wire::response_part::kind::call ? R"({"x":1})" : "hm";
    item->name = "f";
    item->call_id = "call_1";
    finished.items.push_back(std::move(item));
  };
  add(wire::response_part::kind::reasoning, "rs_1");
  add(wire::response_part::kind::message, "msg_1_1");
  add(wire::response_part::kind::call, "fc_1_2");
  store->put("a", finished, start);
  EXPECT_EQ(store->find_item("rs_1", "a", start).value().reasoning, "hm");
  EXPECT_EQ(store->find_item("msg_1_1", "a", start).value().content, "hm");
  const auto call = store->find_item("fc_1_2", "a", start).value();
  EXPECT_EQ(call.role, "assistant");
  EXPECT_EQ(call.tool_calls, (std::vector<wire::tool_call>{{"call_1", "f", R"({"x":1})"}}));
  for (const auto* unknown : {"fc_1_3", "fc_1", "fc_2", "fc_", "_", "", "resp_1"})
    EXPECT_FALSE(store->find_item(unknown, "a", start)) << unknown;
  EXPECT_FALSE(store->find_item("rs_1", "b", start)) << "of another key";
}

TEST(response_store, forgets_when_the_time_is_over) {
  const auto kept = unbounded();
  const auto store = std::make_shared<response_store>(roomy, kept);
  store->put("a", response("r"), start);
  store->put("b", response("s"), start + seconds(30));
  EXPECT_TRUE(store->find("r", "a", start + seconds(59)));
  EXPECT_FALSE(store->find("r", "a", start + seconds(60))) << "a use does not prolong it";
  EXPECT_FALSE(store->remove("r", "a", start + seconds(60)));
  store->sweep(start + seconds(60));
  EXPECT_EQ(store->num_entries(), 1U);
  EXPECT_TRUE(store->find("s", "b", start + seconds(60)));
  store->sweep(start + seconds(90));
  EXPECT_EQ(store->num_entries(), 0U);
  EXPECT_EQ(kept->num_bytes(), 0U);
}

TEST(response_store, the_oldest_of_a_tenant_gives_way_to_its_newest) {
  const auto store = std::make_shared<response_store>(store_limits{2, 1U << 20U, seconds(60)}, unbounded());
  store->put("b", response("other"), start);
  for (const auto* id : {"1", "2", "3"}) store->put("a", response(id), start);
  EXPECT_FALSE(store->find("1", "a", start));
  EXPECT_TRUE(store->find("2", "a", start) && store->find("3", "a", start));
  EXPECT_TRUE(store->find("other", "b", start));
}

TEST(response_store, the_longest_unused_of_the_largest_tenant_gives_way_when_memory_is_used_up) {
  const auto kept = std::make_shared<kept_memory>(10'000);
  const auto store = std::make_shared<response_store>(roomy, kept);
  store->put("b", response("small", 100), start);
  store->put("a", response("1", 4000), start);
  store->put("a", response("2", 4000), start);
  EXPECT_TRUE(store->find("1", "a", start));
  store->put("b", response("3", 2000), start);
  EXPECT_FALSE(store->find("2", "a", start));
  EXPECT_TRUE(store->find("1", "a", start) && store->find("small", "b", start) &&
              store->find("3", "b", start));
  EXPECT_LE(kept->num_bytes(), 10'000U);
  EXPECT_EQ(kept->num_evicted(), 1U);
}

TEST(response_store, keeps_nothing_that_is_too_large) {
  const auto store = std::make_shared<response_store>(store_limits{100, 10'000, seconds(60)}, unbounded());
  store->put("a", response("r", 10'000), start);
  EXPECT_FALSE(store->find("r", "a", start));
  EXPECT_EQ(store->num_entries(), 0U);
}

TEST(response_store, removes_what_its_owner_names) {
  const auto kept = unbounded();
  const auto store = std::make_shared<response_store>(roomy, kept);
  store->put("a", response("r"), start);
  const auto in_use = store->find("r", "a", start);
  EXPECT_FALSE(store->remove("r", "b", start));
  EXPECT_TRUE(store->remove("r", "a", start));
  EXPECT_FALSE(store->remove("r", "a", start));
  EXPECT_FALSE(store->find("r", "a", start));
  EXPECT_EQ(in_use->object.text(), "{}") << "who has found it may go on";
  EXPECT_EQ(kept->num_bytes(), 0U);
}

TEST(response_store, gives_its_bytes_back_at_its_end) {
  const auto kept = unbounded();
  {
    const auto store = std::make_shared<response_store>(roomy, kept);
    for (int i = 0; i < 50; ++i) store->put("a", response(std::to_string(i), 1000), start);
    EXPECT_GT(kept->num_bytes(), 50'000U);
    store->clear();
    EXPECT_EQ(kept->num_bytes(), 0U);
    store->put("a", response("r"), start);
  }
  EXPECT_EQ(kept->num_bytes(), 0U);
}

} // namespace
} // namespace paceline::server
