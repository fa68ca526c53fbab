#include "server/metrics/families.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

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

void write_requests(exposition& out, const engine_snapshot& snapshot) {
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
}

void write_rounds(exposition& out, const engine_snapshot& snapshot) {
  const auto counter = [&](const char* name, const char* help, auto field) {
    per_model(out, snapshot, true, name, help, field);
  };
  counter("paceline_rounds_total", "Rounds run.", [](const auto& m) { return m.num_rounds; });
  counter("paceline_rollbacks_total", "Verified drafts of which at least one token was not accepted.",
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
}

void write_speculation(exposition& out, const engine_snapshot& snapshot) {
  per_drafter(out, snapshot, "paceline_draft_rounds_total",
              "Drafts verified, counted once for each request and round.",
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

void write_states(exposition& out, const engine_snapshot& snapshot) {
  bool is_named = false;
  for (const auto& model : snapshot.models)
    for (const auto& pool : model.pools) {
      if (pool.num_state_slots == 0) continue;
      if (!std::exchange(is_named, true))
        out.gauge("paceline_state_slots", "Slots of recurrent states by state, of models that have one.");
      const std::pair<const char*, std::uint64_t> states[] = {{"active", pool.held_state_slots},
                                                              {"cached", pool.idle_snapshots},
                                                              {"free", pool.free_state_slots}};
      for (const auto& [state, slots] : states)
        out.sample({{"model", model.name}, {"pool", pool.name}, {"state", state}}, slots);
    }
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
  write_states(out, snapshot);
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
  write_requests(out, snapshot);
  write_rounds(out, snapshot);
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

} // namespace paceline::server
