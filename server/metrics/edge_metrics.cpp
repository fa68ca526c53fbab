#include "server/metrics/edge_metrics.hpp"

#include "runtime/base/check.hpp"
#include "server/metrics/families.hpp"

namespace paceline::server {

namespace {

std::uint64_t load(const std::atomic<std::uint64_t>& value) { return value.load(std::memory_order_relaxed); }

} // namespace

edge_metrics::edge_metrics(const std::vector<std::string>& model_names) {
  for (const auto& name : model_names) models_.emplace(name, std::make_unique<model_metrics>());
}

model_metrics& edge_metrics::of(std::string_view model) {
  const auto found = models_.find(model);
  PACELINE_CHECK(found != models_.end(), "metrics of a model that is not configured");
  return *found->second;
}

void edge_metrics::count_reply(endpoint target, int status) noexcept {
  const auto digit = static_cast<std::size_t>(status / 100) % num_classes;
  replies_[static_cast<std::size_t>(target)][digit].fetch_add(1, std::memory_order_relaxed);
}

void edge_metrics::count_refusal(int status) noexcept {
  replies_[num_endpoints - 1][static_cast<std::size_t>(status / 100) % num_classes].fetch_add(
      1, std::memory_order_relaxed);
}

void edge_metrics::write_clients(exposition& out) const {
  const auto counter = [&](const char* name, const char* help, const std::atomic<std::uint64_t>& value) {
    out.counter(name, help);
    out.sample({}, load(value));
  };
  const auto gauge = [&](const char* name, const char* help, const std::atomic<std::uint64_t>& value) {
    out.gauge(name, help);
    out.sample({}, load(value));
  };
  counter("paceline_connections_total", "Connections accepted.", connections_total);
  gauge("paceline_connections_active", "Connections open now.", connections_active);
  counter("paceline_connections_refused_total", "Connections closed because too many were open.",
          connections_refused);
  counter("paceline_connections_evicted_total",
          "Connections without a request closed because a new one needed the place.", connections_evicted);
  if (const auto not_after = certificate_not_after.load(); not_after != 0) {
    counter("paceline_tls_handshakes_total", "TLS handshakes completed.", tls_handshakes);
    counter("paceline_tls_handshake_failures_total",
            "TLS handshakes that did not complete: too slow, refused, or given up by the client.",
            tls_failures);
    out.gauge("paceline_tls_certificate_not_after_seconds", "When the certificate expires, since 1970.");
    out.sample({}, static_cast<double>(not_after));
  }
  counter("paceline_bodies_given_up_total",
          "Request bodies, unfinished or not read yet, refused because all together took too much memory.",
          bodies_given_up);
  counter("paceline_outputs_given_up_total",
          "Connections closed because output that waited for all took too much memory.", outputs_given_up);
  gauge("paceline_kept_bytes", "Memory of conversations and events kept for clients that may come back.",
        kept_bytes);
  counter("paceline_kept_evictions_total", "Those forgotten because all together took too much memory.",
          kept_evictions);
  counter("paceline_websocket_connections_total", "WebSocket connections accepted.", websockets_total);
  gauge("paceline_websocket_connections_active", "WebSocket connections open now.", websockets_active);
  gauge("paceline_open_requests", "Generations whose client waits for them.", open_requests);
  counter("paceline_disconnect_cancels_total", "Requests cancelled because their client left.",
          disconnect_cancels);
  counter("paceline_stalled_closes_total", "Connections closed because their client stopped reading.",
          stalled_closes);
  counter("paceline_flow_pauses_total", "Times a stream paused its generation for a slow reader.",
          flow_pauses);
  counter("paceline_edge_rejections_total", "Requests refused because too many waited to be parsed.",
          edge_rejections);
  counter("paceline_auth_failures_total", "Requests without a valid key.", auth_failures);
}

void edge_metrics::write_operation(exposition& out) const {
  out.gauge("paceline_load_progress",
            "Share of the bytes of all models that has been read; 1 once they serve.");
  out.sample({}, load_share.load());
  out.gauge("paceline_event_watchers", "Clients of /paceline/events.");
  out.sample({}, load(event_watchers));
  out.counter("paceline_log_lines_dropped_total", "Log lines that nobody took.");
  out.sample({}, load(log_lines_dropped));
  out.counter("paceline_config_reloads_total",
              "Configurations read again on SIGHUP, by what became of them.");
  out.sample({{"result", "applied"}}, load(reloads_applied));
  out.sample({{"result", "refused"}}, load(reloads_refused));
  out.gauge("paceline_config_last_reload_refused", "1 if the file that was read last was not taken over.");
  out.sample({}, last_reload_refused ? 1 : 0);
}

void edge_metrics::write_replies(exposition& out) const {
  out.counter("paceline_http_replies_total", "Replies by endpoint and first digit of the status.");
  static constexpr const char* classes[] = {"0xx", "1xx", "2xx", "3xx", "4xx", "5xx"};
  for (std::size_t i = 0; i < num_endpoints; ++i)
    for (std::size_t j = 0; j < num_classes; ++j)
      if (const auto replies = load(replies_[i][j]); replies > 0)
        out.sample({{"endpoint", i + 1 == num_endpoints ? "none" : to_string(static_cast<endpoint>(i))},
                    {"status", classes[j]}},
                   replies);
}

std::string edge_metrics::text(const engine_snapshot& snapshot, bool vllm_names) const {
  exposition out;
  write_process(out);
  write_clients(out);
  write_operation(out);
  write_replies(out);
  std::vector<named_model_metrics> models;
  for (const auto& [name, metrics] : models_) models.push_back({name, metrics.get()});
  write_engine(out, snapshot);
  write_distributions(out, models);
  if (vllm_names) write_vllm_names(out, snapshot, models);
  return out.take();
}

} // namespace paceline::server
