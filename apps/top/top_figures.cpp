#include "apps/top/top_figures.hpp"

#include <algorithm>

namespace paceline::apps {

namespace json = boost::json;

namespace {

std::uint64_t count_in(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  if (value == nullptr) return 0;
  if (const auto* number = value->if_uint64()) return *number;
  const auto* number = value->if_int64();
  return number != nullptr && *number > 0 ? static_cast<std::uint64_t>(*number) : 0;
}

std::string text_in(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  const auto* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? std::string() : std::string(*text);
}

/// Differences of counters between two samples.
class interval {
 public:
  interval(const top_sample& before, const top_sample& now) : before_(before), now_(now) {}

  double growth(std::string_view name, const label_filter& labels) const {
    // A restarted daemon counts from 0.
    return std::max(now_.metrics.sum(name, labels) - before_.metrics.sum(name, labels), 0.0);
  }
  double rate(std::string_view name, const label_filter& labels) const {
    const double seconds = now_.time - before_.time;
    return seconds > 0 ? growth(name, labels) / seconds : 0;
  }
  std::optional<double> acceptance(const label_filter& labels) const {
    return share(growth("paceline_accepted_tokens_total", labels),
                 growth("paceline_draft_tokens_total", labels));
  }
  std::optional<double> acceptance_so_far(const label_filter& labels) const {
    return share(now_.metrics.sum("paceline_accepted_tokens_total", labels),
                 now_.metrics.sum("paceline_draft_tokens_total", labels));
  }

 private:
  static std::optional<double> share(double part, double all) {
    return all > 0 ? std::optional(part / all) : std::nullopt;
  }

  const top_sample& before_;
  const top_sample& now_;
};

drafter_figures figures_of_drafter(const interval& over, const std::string& model, const std::string& name) {
  const label_filter labels{{"model", model}, {"drafter", name}};
  return {name, over.rate("paceline_draft_rounds_total", labels),
          over.rate("paceline_draft_tokens_total", labels), over.acceptance(labels),
          over.acceptance_so_far(labels)};
}

pool_figures figures_of_pool(const metric_samples& now, const std::string& model, const std::string& name) {
  const auto blocks = [&](std::string_view state) {
    return static_cast<std::uint64_t>(
        now.sum("paceline_kv_blocks", {{"model", model}, {"pool", name}, {"state", state}}));
  };
  pool_figures out{name, blocks("active"), blocks("cached"), blocks("free"), 0};
  out.all = out.active + out.cached + out.free + blocks("deferred");
  return out;
}

model_figures figures_of_model(const interval& over, const metric_samples& now, const std::string& name) {
  const label_filter labels{{"model", name}};
  model_figures out;
  out.name = name;
  out.running = static_cast<std::uint64_t>(now.sum("paceline_requests_running", labels));
  out.waiting = static_cast<std::uint64_t>(now.sum("paceline_requests_waiting", labels));
  out.tokens_per_second = over.rate("paceline_generation_tokens_total", labels);
  out.prompt_tokens_per_second = over.rate("paceline_prompt_tokens_total", labels);
  out.rounds_per_second = over.rate("paceline_rounds_total", labels);
  out.acceptance = over.acceptance(labels);
  for (const auto& drafter : now.values("paceline_draft_tokens_total", "drafter", labels))
    out.drafters.push_back(figures_of_drafter(over, name, drafter));
  for (const auto& pool : now.values("paceline_kv_blocks", "pool", labels))
    out.pools.push_back(figures_of_pool(now, name, pool));
  return out;
}

std::vector<stream_figures> streams_of(const json::object& snapshot) {
  std::vector<stream_figures> out;
  const auto* list = snapshot.if_contains("streams");
  if (list == nullptr || !list->is_array()) return out;
  for (const auto& one : list->as_array()) {
    const auto* stream = one.if_object();
    if (stream == nullptr) continue;
    out.push_back({text_in(*stream, "model"), static_cast<double>(count_in(*stream, "age_ms")) / 1000,
                   count_in(*stream, "prompt_tokens"), count_in(*stream, "output_tokens"),
                   count_in(*stream, "rounds")});
  }
  return out;
}

} // namespace

top_figures figures_between(const top_sample& before, const top_sample& now) {
  const interval over(before, now);
  const auto& metrics = now.metrics;
  top_figures out;
  const auto versions = metrics.values("paceline_build_info", "version");
  out.version = versions.empty() ? "" : versions.front();
  out.state = text_in(now.snapshot, "state");
  out.load_progress = metrics.sum("paceline_load_progress");
  const double started = metrics.sum("process_start_time_seconds");
  out.uptime = started > 0 ? std::max(now.date - started, 0.0) : 0;
  out.interval = now.time - before.time;
  out.connections = static_cast<std::uint64_t>(metrics.sum("paceline_connections_active"));
  out.websockets = static_cast<std::uint64_t>(metrics.sum("paceline_websocket_connections_active"));
  out.resident_bytes = static_cast<std::uint64_t>(metrics.sum("process_resident_memory_bytes"));
  out.num_streams = count_in(now.snapshot, "num_streams");
  for (const auto& model : metrics.values("paceline_requests_running", "model"))
    out.models.push_back(figures_of_model(over, metrics, model));
  out.streams = streams_of(now.snapshot);
  return out;
}

} // namespace paceline::apps
