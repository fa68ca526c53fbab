#include "server/metrics/families.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// The engine's figures under vLLM's names, for existing dashboards.

namespace paceline::server {

namespace {

double usage_of(const model_counters& model) {
  if (model.pools.empty() || model.pools.front().num_blocks == 0) return 0;
  return static_cast<double>(model.pools.front().active_blocks) /
         static_cast<double>(model.pools.front().num_blocks);
}

/// One family of counters or gauges with one sample a model.
template <class Field>
void per_vllm_model(exposition& out, const engine_snapshot& snapshot, bool is_counter, const char* name,
                    const char* help, Field field) {
  is_counter ? out.counter(name, help) : out.gauge(name, help);
  for (const auto& model : snapshot.models)
    out.sample({{"engine", "0"}, {"model_name", model.name}}, field(model));
}

void write_vllm_requests(exposition& out, const engine_snapshot& snapshot) {
  const auto one = [&](bool is_counter, const char* name, const char* help, auto field) {
    per_vllm_model(out, snapshot, is_counter, name, help, field);
  };
  one(false, "vllm:num_requests_running", "Requests being decoded.",
      [](const auto& m) { return m.num_running; });
  one(false, "vllm:num_requests_waiting", "Requests waiting.", [](const auto& m) { return m.num_waiting; });
  one(false, "vllm:kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.", usage_of);
  one(true, "vllm:prompt_tokens_total", "Prompt tokens.", [](const auto& m) { return m.prompt_tokens; });
  one(true, "vllm:generation_tokens_total", "Tokens committed.",
      [](const auto& m) { return m.generation_tokens; });
  one(true, "vllm:prompt_tokens_cached_total", "Prompt tokens found in the cache.",
      [](const auto& m) { return m.cached_prompt_tokens; });
  one(true, "vllm:prefix_cache_queries_total", "Prompt tokens looked up.",
      [](const auto& m) { return m.pools.empty() ? 0 : m.pools.front().prefix_query_tokens; });
  one(true, "vllm:prefix_cache_hits_total", "Prompt tokens found.",
      [](const auto& m) { return m.pools.empty() ? 0 : m.pools.front().prefix_hit_tokens; });
  one(true, "vllm:num_preemptions_total", "Requests set back.",
      [](const auto& m) { return m.num_preemptions; });
  out.counter("vllm:request_success_total", "Requests ended.");
  for (const auto& m : snapshot.models) {
    const std::pair<const char*, std::uint64_t> reasons[] = {
        {"stop", m.finished_stop}, {"length", m.finished_length}, {"abort", m.finished_cancelled}};
    for (const auto& [reason, number] : reasons)
      out.sample({{"engine", "0"}, {"finished_reason", reason}, {"model_name", m.name}}, number);
  }
}

void write_vllm_speculation(exposition& out, const engine_snapshot& snapshot) {
  const auto over_drafters = [&](const char* name, const char* help, auto member) {
    per_vllm_model(out, snapshot, true, name, help, [member](const model_counters& model) {
      std::uint64_t total = 0;
      for (const auto& drafter : model.drafters) total += drafter.*member;
      return total;
    });
  };
  over_drafters("vllm:spec_decode_num_drafts_total", "Rounds with drafts.", &drafter_counters::num_rounds);
  over_drafters("vllm:spec_decode_num_draft_tokens_total", "Draft tokens.",
                &drafter_counters::num_draft_tokens);
  over_drafters("vllm:spec_decode_num_accepted_tokens_total", "Draft tokens accepted.",
                &drafter_counters::num_accepted_tokens);
  out.counter("vllm:spec_decode_num_accepted_tokens_per_pos_total", "Draft tokens accepted by position.");
  for (const auto& model : snapshot.models) {
    std::vector<std::uint64_t> totals;
    for (const auto& drafter : model.drafters) {
      totals.resize(std::max(totals.size(), drafter.accepted_per_position.size()));
      for (std::size_t i = 0; i < drafter.accepted_per_position.size(); ++i)
        totals[i] += drafter.accepted_per_position[i];
    }
    for (std::size_t i = 0; i < totals.size(); ++i)
      out.sample({{"engine", "0"}, {"model_name", model.name}, {"position", std::to_string(i)}}, totals[i]);
  }
}

void write_latencies(exposition& out, const std::vector<named_model_metrics>& models) {
  const auto family = [&](const char* name, const char* help, auto member) {
    out.histogram_family(name, help);
    for (const auto& model : models)
      out.add_histogram({{"engine", "0"}, {"model_name", model.name}}, model.metrics->*member);
  };
  family("vllm:time_to_first_token_seconds", "Time to first token.", &model_metrics::first_token);
  family("vllm:inter_token_latency_seconds", "Gap before each later token.", &model_metrics::token_gap);
  family("vllm:request_time_per_output_token_seconds", "Decode time per token.",
         &model_metrics::time_per_token);
  family("vllm:e2e_request_latency_seconds", "Whole request.", &model_metrics::total);
  family("vllm:request_queue_time_seconds", "Waiting.", &model_metrics::queued);
  family("vllm:request_prefill_time_seconds", "Prompt.", &model_metrics::prefill);
  family("vllm:request_decode_time_seconds", "Decoding.", &model_metrics::decode);
  family("vllm:request_prompt_tokens", "Prompt tokens.", &model_metrics::prompt_tokens);
  family("vllm:request_generation_tokens", "Output tokens.", &model_metrics::output_tokens);
}

} // namespace

void write_vllm_names(exposition& out, const engine_snapshot& snapshot,
                      const std::vector<named_model_metrics>& models) {
  write_vllm_requests(out, snapshot);
  write_vllm_speculation(out, snapshot);
  write_latencies(out, models);
}

} // namespace paceline::server
