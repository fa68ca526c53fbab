#include "served.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

namespace json = boost::json;

const std::string completion = "Content-Type: application/json\r\nContent-Length: 10\r\n";

/// Watches, and returns the channel of the watcher.
std::shared_ptr<recording_channel> watch(served& s, std::string_view query = "") {
  EXPECT_EQ(s.ask("GET /paceline/events" + std::string(query)), 0);
  return s.channel;
}

/// Publishes a snapshot to those who watch.
void tick(served& s) {
  s.requests.tick();
  s.edge.executor->run();
}

json::object snapshot(const recording_channel& channel, std::size_t index) {
  return json::parse(channel.data().at(index)).as_object();
}

TEST(service_events, snapshots_show_what_runs) {
  served s;
  s.ask("POST /v1/completions", completion, R"({"prompt":"abc","max_tokens":9,"stream":true})");
  const auto running = s.exchange;
  s.edge.engine.tokens(1, "xy");
  s.edge.engine.tokens(1, "z");
  s.edge.executor->run();
  s.edge.now += std::chrono::milliseconds(250);
  const auto watcher = watch(s);
  const auto watching = s.exchange;
  ASSERT_TRUE(watcher->streaming);
  auto shown = snapshot(*watcher, 0);
  EXPECT_EQ(shown.at("state"), "serving");
  EXPECT_EQ(shown.at("num_streams").as_int64(), 1);
  const auto& stream = shown.at("streams").at(0).as_object();
  EXPECT_EQ(stream.at("model"), "bytes");
  EXPECT_EQ(stream.at("age_ms").as_int64(), 250);
  EXPECT_EQ(stream.at("prompt_tokens").as_int64(), 4); // with BOS
  EXPECT_EQ(stream.at("output_tokens").as_int64(), 3);
  EXPECT_EQ(stream.at("rounds").as_int64(), 2);

  s.edge.engine.end(1, finish_reason::stop);
  s.edge.executor->run();
  tick(s);
  EXPECT_EQ(snapshot(*watcher, 1).at("num_streams").as_int64(), 0);
}

TEST(service_events, a_client_that_leaves_is_shown_no_longer) {
  served s;
  s.ask("POST /v1/completions", completion, R"({"prompt":"abc","n":3,"stream":true,"max_tokens":9})");
  EXPECT_EQ(s.edge.context.streams->size(), 3U);
  s.exchange->on_disconnect();
  s.exchange.reset();
  s.edge.executor->run();
  EXPECT_EQ(s.edge.context.streams->size(), 0U);
}

TEST(service_events, the_list_is_bounded_and_the_number_is_not) {
  served s;
  s.ask("POST /v1/completions", completion, R"({"prompt":"abc","n":100,"stream":true,"max_tokens":9})");
  const auto running = s.exchange;
  const auto shown = snapshot(*watch(s), 0);
  EXPECT_EQ(shown.at("num_streams").as_int64(), 100);
  EXPECT_EQ(shown.at("streams").as_array().size(), 64U);
}

TEST(service_events, a_limit_ends_the_stream) {
  served s;
  const auto watcher = watch(s, "?limit=2");
  const auto watching = s.exchange;
  EXPECT_FALSE(watcher->finished);
  tick(s);
  EXPECT_TRUE(watcher->finished);
  EXPECT_EQ(watcher->data().size(), 2U);
}

TEST(service_events, a_limit_that_is_none_is_refused_by_name) {
  served s;
  for (const auto* limit : {"0", "-1", "1.5", "x", "", "1000001", "99999999999"}) {
    EXPECT_EQ(s.ask("GET /paceline/events?limit=" + std::string(limit)), 400) << limit;
    EXPECT_EQ(s.body().at("error").at("param"), "limit");
  }
}

TEST(service_events, whoever_does_not_read_misses_snapshots) {
  served s;
  const auto watcher = watch(s);
  const auto watching = s.exchange;
  watcher->full = true;
  tick(s);
  EXPECT_EQ(watcher->data().size(), 1U);
  watcher->full = false;
  tick(s);
  ASSERT_EQ(watcher->data().size(), 2U);
  EXPECT_EQ(snapshot(*watcher, 1).at("number").as_int64(), 2);
}

TEST(service_events, a_limit_counts_snapshots_that_were_sent) {
  served s;
  const auto watcher = watch(s, "?limit=2");
  const auto watching = s.exchange;
  watcher->full = true;
  tick(s);
  tick(s);
  EXPECT_FALSE(watcher->finished);
  watcher->full = false;
  watching->on_writable();
  EXPECT_TRUE(watcher->finished);
  ASSERT_EQ(watcher->data().size(), 2U);
  EXPECT_EQ(snapshot(*watcher, 1).at("number").as_int64(), 2) << "the newest";
  watching->on_writable();
  EXPECT_EQ(watcher->data().size(), 2U);
}

TEST(service_events, the_last_snapshot_waits_for_a_client_that_does_not_read) {
  served s;
  const auto watcher = watch(s);
  const auto watching = s.exchange;
  watcher->full = true;
  s.requests.begin_drain();
  s.edge.executor->run();
  EXPECT_FALSE(watcher->finished);
  watcher->full = false;
  watching->on_writable();
  EXPECT_TRUE(watcher->finished);
  EXPECT_EQ(snapshot(*watcher, 1).at("state"), "draining");
}

TEST(service_events, one_snapshot_takes_no_place) {
  served s;
  std::vector<std::shared_ptr<exchange>> watching;
  for (std::uint32_t i = 0; i < s.edge.limits.max_watchers; ++i) {
    watch(s);
    watching.push_back(s.exchange);
  }
  const auto looking = watch(s, "?limit=1");
  EXPECT_TRUE(looking->finished);
  EXPECT_EQ(looking->data().size(), 1U);
  watching.pop_back();
  s.exchange.reset();
  const auto one = watch(s, "?limit=1");
  watch(s);
  EXPECT_TRUE(s.channel->streaming);
  s.requests.begin_drain();
  EXPECT_EQ(s.ask("GET /paceline/events?limit=1"), 503);
}

TEST(service_events, too_many_watchers_are_refused) {
  served s;
  std::vector<std::shared_ptr<exchange>> watching;
  for (std::uint32_t i = 0; i < s.edge.limits.max_watchers; ++i) {
    watch(s);
    watching.push_back(s.exchange);
  }
  EXPECT_EQ(s.ask("GET /paceline/events"), 503);
  EXPECT_EQ(s.body().at("error").at("code"), "too_many_watchers");
  EXPECT_NE(header_of(s.last.headers, "Retry-After"), "");
  watching.pop_back();
  s.exchange.reset();
  watch(s);
}

TEST(service_events, a_drain_ends_all_streams_with_a_last_snapshot) {
  served s;
  const auto watcher = watch(s);
  const auto watching = s.exchange;
  s.requests.begin_drain();
  s.edge.executor->run();
  EXPECT_TRUE(watcher->finished);
  EXPECT_EQ(snapshot(*watcher, 1).at("state"), "draining");
  EXPECT_EQ(s.ask("GET /paceline/events"), 503);
  EXPECT_EQ(s.body().at("error").at("code"), "draining");
}

TEST(service_events, the_rules_of_metrics_apply) {
  served s({"sesame"});
  EXPECT_EQ(s.admit("GET /paceline/events"), 0);
  s.change([](edge_settings& settings) { settings.metrics_require_key = true; });
  EXPECT_EQ(s.admit("GET /paceline/events"), 401);
  EXPECT_EQ(s.admit("GET /paceline/events", "Authorization: Bearer sesame\r\n"), 0);
  s.edge.metrics_options.enabled = false;
  EXPECT_EQ(s.admit("GET /paceline/events"), 404);
}

TEST(service_events, a_head_request_does_not_wait) {
  served s;
  EXPECT_EQ(s.ask("HEAD /paceline/events"), 200);
  EXPECT_EQ(s.last.content_type, "text/event-stream");
}

} // namespace
} // namespace paceline::server
