#include "server/metrics/edge_metrics.hpp"

#include "scripted_backend.hpp"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

namespace paceline::server {
namespace {

std::string text(bool vllm) {
  scripted_edge edge;
  edge.metrics.count_reply(endpoint::completions, 200);
  edge.metrics.of("bytes").first_token.observe(0.02);
  return edge.metrics.text(edge.engine.snapshot(), vllm);
}

TEST(edge_metrics, every_sample_belongs_to_a_family_declared_once) {
  std::istringstream lines(text(true));
  std::set<std::string> families;
  std::string family;
  std::string type;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string mark;
    std::string kind;
    words >> mark >> kind;
    if (mark == "#") {
      words >> family;
      if (kind == "HELP") {
        EXPECT_TRUE(families.insert(family).second) << family << " twice";
      } else {
        words >> type;
      }
      continue;
    }
    const auto name = mark.substr(0, mark.find('{'));
    const bool histogram = type == "histogram";
    EXPECT_EQ(histogram ? name.substr(0, family.size()) : name, family) << line;
    if (type == "counter") {
      EXPECT_EQ(name.substr(name.size() - 6), "_total") << line;
    }
  }
  EXPECT_GT(families.size(), 50U);
}

TEST(edge_metrics, our_names_have_no_colon_and_vllms_are_switchable) {
  EXPECT_EQ(text(false).find("vllm:"), std::string::npos);
  const auto with = text(true);
  for (const auto* name : {"vllm:spec_decode_num_drafts_total{engine=\"0\",model_name=\"bytes\"} 4",
                           "vllm:spec_decode_num_draft_tokens_total{engine=\"0\",model_name=\"bytes\"} 16",
                           "vllm:spec_decode_num_accepted_tokens_total{engine=\"0\",model_name=\"bytes\"} 8",
                           "vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",model_name="
                           "\"bytes\",position=\"1\"} 4",
                           "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"bytes\"} 0.5",
                           "vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"bytes\"} 60"})
    EXPECT_NE(with.find(name), std::string::npos) << name;
}

TEST(edge_metrics, prints_states_of_blocks_and_replies) {
  const auto all = text(false);
  EXPECT_NE(all.find("paceline_kv_blocks{model=\"bytes\",pool=\"bytes\",state=\"active\"} 5"),
            std::string::npos);
  EXPECT_NE(all.find("paceline_http_replies_total{endpoint=\"completions\",status=\"2xx\"} 1"),
            std::string::npos);
  EXPECT_NE(all.find("paceline_time_to_first_token_seconds_bucket{model=\"bytes\",le=\"0.02\"} 1"),
            std::string::npos);
  EXPECT_NE(all.find("paceline_time_to_first_token_seconds_bucket{model=\"bytes\",le=\"0.01\"} 0"),
            std::string::npos);
  EXPECT_NE(all.find("paceline_time_to_first_token_seconds_count{model=\"bytes\"} 1"), std::string::npos);
}

TEST(edge_metrics, state_slots_are_shown_of_models_that_have_them) {
  scripted_edge edge;
  EXPECT_EQ(text(false).find("paceline_state_slots"), std::string::npos);
  auto snapshot = edge.engine.snapshot();
  auto& pool = snapshot.models.at(0).pools.at(0);
  pool.num_state_slots = 9, pool.held_state_slots = 4, pool.idle_snapshots = 2, pool.free_state_slots = 3;
  const auto all = edge.metrics.text(snapshot, false);
  for (const auto* sample : {"state=\"active\"} 4", "state=\"cached\"} 2", "state=\"free\"} 3"})
    EXPECT_NE(all.find(std::string("paceline_state_slots{model=\"bytes\",pool=\"bytes\",") + sample),
              std::string::npos)
        << sample;
}

/// Failures that metrics_test.py cannot cause in a healthy daemon.
TEST(edge_metrics, prints_what_failed) {
  scripted_edge edge;
  auto snapshot = edge.engine.snapshot();
  auto& model = snapshot.models.at(0);
  model.is_late = true;
  model.num_device_losses = 7;
  model.num_preemptions = 8;
  model.drafters.at(0).num_failures = 3;
  snapshot.actors.push_back({"draft_worker/0/1", 0, 5, 4, true});
  const auto all = edge.metrics.text(snapshot, false);
  for (const auto* sample :
       {"paceline_draft_failures_total{model=\"bytes\",drafter=\"ngram\"} 3\n",
        "paceline_model_figures_late{model=\"bytes\"} 1\n",
        "paceline_device_losses_total{model=\"bytes\"} 7\n",
        "paceline_preemptions_total{model=\"bytes\"} 8\n", "paceline_actor_lost{actor=\"scheduler\"} 0\n",
        "paceline_actor_lost{actor=\"draft_worker/0/1\"} 1\n",
        "paceline_actor_restarts_total{actor=\"draft_worker/0/1\"} 4\n"})
    EXPECT_NE(all.find(sample), std::string::npos) << sample;
}

} // namespace
} // namespace paceline::server
