#include "server/metrics/families.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace paceline::server {

namespace {

const auto process_start = std::chrono::system_clock::now();

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  file >> total >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

std::size_t open_files() {
  std::error_code failure;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", failure), end; !failure && it != end;
       it.increment(failure))
    ++count;
  return count;
}

/// Writes one family of counters or gauges with one sample for each model.
template <class Field>
void per_model(exposition& out, const engine_snapshot& snapshot, bool is_counter, const char* name,
               const char* help, Field field) {
  is_counter ? out.counter(name, help) : out.gauge(name, help);
  for (const auto& model : snapshot.models) out.sample({{"model", model.name}}, field(model));
}

template <class Field>
void per_drafter(exposition& out, const engine_snapshot& snapshot, const char* name, const char* help,
                 Field field) {
  out.counter(name, help);
  for (const auto& model : snapshot.models)
    for (const auto& drafter : model.drafters)
      out.sample({{"model", model.name}, {"drafter", drafter.name}}, field(drafter));
}

template <class Field>
void per_pool(exposition& out, const engine_snapshot& snapshot, const char* name, const char* help,
              Field field) {
  out.counter(name, help);
  for (const auto& model : snapshot.models)
    for (const auto& pool : model.pools)
      out.sample({{"model", model.name}, {"pool", pool.name}}, field(pool));
}

void write_speculation(exposition& out, const engine_snapshot& snapshot) {
  per_drafter(out, snapshot, "paceline_draft_rounds_total", "Rounds that verified draft tokens.",
              [](const auto& d) { return d.num_rounds; });
  per_drafter(out, snapshot, "paceline_draft_tokens_total", "Draft tokens verified.",
              [](const auto& d) { return d.num_draft_tokens; });
  per_drafter(out, snapshot, "paceline_accepted_tokens_total", "Draft tokens accepted.",
              [](const auto& d) { return d.num_accepted_tokens; });
  per_drafter(out, snapshot, "paceline_drafts_foreseen_total",
              "Drafts made before the verdict they depend on was known.",
              [](const auto& d) { return d.num_foreseen; });
  per_drafter(out, snapshot, "paceline_drafts_ready_total", "Of those, the ones that the verdict was for.",
              [](const auto& d) { return d.num_ready; });
  per_drafter(out, snapshot, "paceline_draft_failures_total",
              "Times that a drafter failed; it is not asked again for a while.",
              [](const auto& d) { return d.num_failures; });
  out.counter("paceline_accepted_tokens_per_position_total",
              "Draft tokens accepted by their place in the draft.");
  for (const auto& model : snapshot.models)
    for (const auto& drafter : model.drafters)
      for (std::size_t i = 0; i < drafter.accepted_per_position.size(); ++i)
        out.sample({{"model", model.name}, {"drafter", drafter.name}, {"position", std::to_string(i)}},
                   drafter.accepted_per_position[i]);
}

void write_pools(exposition& out, const engine_snapshot& snapshot) {
  out.gauge("paceline_kv_blocks", "KV blocks by state.");
  for (const auto& model : snapshot.models)
    for (const auto& pool : model.pools) {
      const std::pair<const char*, std::uint64_t> states[] = {{"active", pool.active_blocks},
                                                              {"cached", pool.cached_blocks},
                                                              {"deferred", pool.deferred_blocks},
                                                              {"free", pool.free_blocks}};
      for (const auto& [state, blocks] : states)
        out.sample({{"model", model.name}, {"pool", pool.name}, {"state", state}}, blocks);
    }
  per_pool(out, snapshot, "paceline_prefix_query_tokens_total",
           "Prompt tokens looked up in the prefix index.",
           [](const auto& p) { return p.prefix_query_tokens; });
  per_pool(out, snapshot, "paceline_prefix_hit_tokens_total", "Prompt tokens found there.",
           [](const auto& p) { return p.prefix_hit_tokens; });
  per_pool(out, snapshot, "paceline_evictions_total", "Cached blocks given up for new requests.",
           [](const auto& p) { return p.num_evictions; });
}

void write_actors(exposition& out, const engine_snapshot& snapshot) {
  out.gauge("paceline_mailbox_depth", "Messages that waited when an actor last took one.");
  for (const auto& actor : snapshot.actors) out.sample({{"actor", actor.name}}, actor.mailbox_depth);
  out.counter("paceline_actor_messages_total", "Messages an actor has handled.");
  for (const auto& actor : snapshot.actors) out.sample({{"actor", actor.name}}, actor.num_messages);
  out.counter("paceline_actor_restarts_total", "Times an actor was restarted.");
  for (const auto& actor : snapshot.actors) out.sample({{"actor", actor.name}}, actor.num_restarts);
  out.gauge("paceline_actor_lost", "Whether an actor failed too often and is not started again.");
  for (const auto& actor : snapshot.actors) out.sample({{"actor", actor.name}}, actor.is_lost ? 1 : 0);
}

double usage_of(const model_counters& model) {
  if (model.pools.empty() || model.pools.front().num_blocks == 0) return 0;
  return static_cast<double>(model.pools.front().active_blocks) /
         static_cast<double>(model.pools.front().num_blocks);
}

} // namespace

void write_process(exposition& out) {
  out.gauge("paceline_build_info", "Version of this build.");
  out.sample({{"version", PACELINE_VERSION}}, 1);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  out.counter("process_cpu_seconds_total", "User and system time.");
  out.sample({}, seconds(used.ru_utime) + seconds(used.ru_stime));
  out.gauge("process_resident_memory_bytes", "Resident memory.");
  out.sample({}, resident_bytes());
  out.gauge("process_open_fds", "Open file descriptors.");
  out.sample({}, open_files());
  out.gauge("process_start_time_seconds", "Start time since 1970.");
  out.sample({}, std::chrono::duration<double>(process_start.time_since_epoch()).count());
}

void write_engine(exposition& out, const engine_snapshot& snapshot) {
  const auto counter = [&](const char* name, const char* help, auto field) {
    per_model(out, snapshot, true, name, help, field);
  };
  const auto gauge = [&](const char* name, const char* help, auto field) {
    per_model(out, snapshot, false, name, help, field);
  };
  gauge("paceline_model_strict",
        "1 where texts do not depend on what else is computed, 0 on a device in fast mode.",
        [](const auto& m) { return m.is_strict ? 1 : 0; });
  gauge("paceline_model_figures_late",
        "1 where a model did not answer in time: its figures are the last known.",
        [](const auto& m) { return m.is_late ? 1 : 0; });
  gauge("paceline_requests_running", "Requests being decoded.", [](const auto& m) { return m.num_running; });
  gauge("paceline_requests_waiting", "Requests waiting for room.",
        [](const auto& m) { return m.num_waiting; });
  counter("paceline_requests_admitted_total", "Requests admitted.",
          [](const auto& m) { return m.num_admitted; });
  counter("paceline_preemptions_total", "Requests set back for lack of KV blocks.",
          [](const auto& m) { return m.num_preemptions; });
  counter("paceline_queue_full_rejections_total", "Requests refused because the queue was full.",
          [](const auto& m) { return m.num_rejections_queue_full; });
  counter("paceline_device_losses_total", "Times a round did not come back within its timeout.",
          [](const auto& m) { return m.num_device_losses; });
  out.counter("paceline_requests_finished_total", "Requests ended, by reason.");
  for (const auto& m : snapshot.models) {
    const std::pair<const char*, std::uint64_t> reasons[] = {{"stop", m.finished_stop},
                                                             {"length", m.finished_length},
                                                             {"cancelled", m.finished_cancelled},
                                                             {"error", m.finished_error}};
    for (const auto& [reason, number] : reasons) out.sample({{"model", m.name}, {"reason", reason}}, number);
  }
  counter("paceline_prompt_tokens_total", "Prompt tokens of admitted requests.",
          [](const auto& m) { return m.prompt_tokens; });
  counter("paceline_cached_prompt_tokens_total", "Prompt tokens found in the prefix cache.",
          [](const auto& m) { return m.cached_prompt_tokens; });
  counter("paceline_generation_tokens_total", "Tokens committed.",
          [](const auto& m) { return m.generation_tokens; });
  counter("paceline_rounds_total", "Rounds run.", [](const auto& m) { return m.num_rounds; });
  counter("paceline_rollbacks_total", "Rounds that forgot at least one draft token.",
          [](const auto& m) { return m.num_rollbacks; });
  counter("paceline_rolled_back_tokens_total", "Draft tokens forgotten.",
          [](const auto& m) { return m.rolled_back_tokens; });
  counter("paceline_stale_drafts_total", "Drafts dropped because their base had passed.",
          [](const auto& m) { return m.stale_drafts; });
  out.counter("paceline_round_seconds_total",
              "Time of rounds on the target's stream: of those that read a prompt, of the others by part.");
  for (const auto& m : snapshot.models) {
    out.sample({{"model", m.name}, {"part", "prompt"}}, m.prompt_seconds);
    out.sample({{"model", m.name}, {"part", "draft"}}, m.draft_seconds);
    out.sample({{"model", m.name}, {"part", "verify"}}, m.pass_seconds);
    out.sample({{"model", m.name}, {"part", "sample"}}, m.decide_seconds);
  }
  counter("paceline_target_busy_seconds_total", "Time the target's stream computed.",
          [](const auto& m) { return m.target_busy_seconds; });
  counter("paceline_draft_busy_seconds_total", "Time drafters' streams computed.",
          [](const auto& m) { return m.draft_busy_seconds; });
  counter("paceline_overlap_seconds_total", "Time both computed at once.",
          [](const auto& m) { return m.overlap_seconds; });
  write_speculation(out, snapshot);
  write_pools(out, snapshot);
  write_actors(out, snapshot);
}

void write_distributions(exposition& out, const std::vector<named_model_metrics>& models) {
  const auto family = [&](const char* name, const char* help, auto member) {
    out.histogram_family(name, help);
    for (const auto& model : models) out.add_histogram({{"model", model.name}}, model.metrics->*member);
  };
  family("paceline_time_to_first_token_seconds", "From the request's arrival to its first token.",
         &model_metrics::first_token);
  family("paceline_inter_token_latency_seconds", "Gap before each later token; tokens of one round share it.",
         &model_metrics::token_gap);
  family("paceline_time_per_output_token_seconds", "Decode time over tokens after the first.",
         &model_metrics::time_per_token);
  family("paceline_commit_to_write_seconds",
         "From the end of a round to the write of its tokens into a stream.",
         &model_metrics::commit_to_write);
  family("paceline_request_duration_seconds", "From the request's arrival to its end.",
         &model_metrics::total);
  family("paceline_request_queue_seconds", "Time before the prompt was begun.", &model_metrics::queued);
  family("paceline_request_prefill_seconds", "Time of the prompt.", &model_metrics::prefill);
  family("paceline_request_decode_seconds", "Time from first to last token.", &model_metrics::decode);
  family("paceline_request_prompt_tokens", "Prompt tokens of a request.", &model_metrics::prompt_tokens);
  family("paceline_request_generation_tokens", "Output tokens of a request.", &model_metrics::output_tokens);
}

void write_vllm_names(exposition& out, const engine_snapshot& snapshot,
                      const std::vector<named_model_metrics>& models) {
  const auto labels = [](const std::string& name) {
    return label_list{{"engine", "0"}, {"model_name", name}};
  };
  const auto one = [&](bool is_counter, const char* name, const char* help, auto field) {
    is_counter ? out.counter(name, help) : out.gauge(name, help);
    for (const auto& model : snapshot.models) out.sample(labels(model.name), field(model));
  };
  const auto over_drafters = [](auto member) {
    return [member](const model_counters& model) {
      std::uint64_t total = 0;
      for (const auto& drafter : model.drafters) total += drafter.*member;
      return total;
    };
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
  one(true, "vllm:spec_decode_num_drafts_total", "Rounds with drafts.",
      over_drafters(&drafter_counters::num_rounds));
  one(true, "vllm:spec_decode_num_draft_tokens_total", "Draft tokens.",
      over_drafters(&drafter_counters::num_draft_tokens));
  one(true, "vllm:spec_decode_num_accepted_tokens_total", "Draft tokens accepted.",
      over_drafters(&drafter_counters::num_accepted_tokens));
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

} // namespace paceline::server
