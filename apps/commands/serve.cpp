#include "apps/commands/model_load.hpp"
#include "apps/commands/options.hpp"
#include "apps/commands/serve_overrides.hpp"
#include "apps/commands/start_report.hpp"
#include "apps/exit_codes.hpp"
#include "apps/service_manager.hpp"
#include "apps/signals.hpp"
#include "runtime/base/joined.hpp"

#include "config/load.hpp"
#include "engine/engine.hpp"
#include "server/fault_log.hpp"
#include "server/late_backend.hpp"
#include "server/server.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <set>
#include <string_view>
#include <sys/resource.h>
#include <utility>

namespace paceline::apps {

namespace {

int report(const config::load_result& loaded) {
  for (const auto& e : loaded.errors) std::fprintf(stderr, "paceline: %s\n", e.c_str());
  return exit_config;
}

/// Opens the standard streams if they are closed. Otherwise a socket would get their number, and a client
/// would get our output.
void keep_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // open returns the lowest free number, which is this one.
    [[maybe_unused]] const int taken = ::open("/dev/null", O_RDWR);
  }
}

/// Raises the limit of descriptors as far as the system allows. The usual soft limit of 1024 is below the sum
/// of `max_connections` and what the process itself opens. If this fails, silent connections are closed
/// earlier.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// The exit code for a failed start. It is that of a configuration error, unless something is missing,
/// unreadable or in use.
exit_code start_code_for(const error& e) {
  return e.code() == errc::invalid_argument ? exit_config : code_for(e);
}

/// The exit code for an edge that cannot be started. A port in use may be free later; all other failures come
/// from the configuration.
exit_code edge_code_for(const error& e) {
  return e.code() == errc::resource_exhausted ? exit_unavailable : exit_config;
}

using config::log_level;
constexpr std::chrono::microseconds health_check{std::chrono::seconds(5)};
constexpr std::chrono::microseconds progress_interval{std::chrono::seconds(1)};

/// Runs from reading the configuration to the end of the process:
///
///     opening ──▶ loading ──────▶ serving ──▶ draining ──▶ exit 0
///        │           │ └ SIGTERM, SIGINT ──────▶┘
///        └ failure ──┴──▶ exit with its code
///
/// The port is open from `loading` on. SIGHUP is obeyed in `loading` and in `serving`.
class daemon {
 public:
  daemon(const serve_options& options, std::vector<config::assignment> overrides, config::load_result loaded)
      : options_(options), overrides_(std::move(overrides)), started_(std::move(loaded)), running_(started_) {
  }

  int run() {
    auto log = server::event_log::open(started_.config.logging);
    if (!log) {
      std::fprintf(stderr, "paceline: %s\n", log.error().message().c_str());
      return exit_config;
    }
    log_ = *std::move(log);
    const auto& chosen = started_.config;
    models_ = joined(chosen.engine.models, ",", &config::model_options::name);
    log_->write(log_level::info, "loading", {{"models", models_}});
    tell_configuration(*log_, started_);

    std::unique_ptr<engine> runtime; // before the edge, which refers to it
    auto late = std::make_unique<server::late_backend>(parts_of(chosen.engine));
    auto& models = *late;
    auto edge = server::http_server::start(std::move(late), chosen.server, chosen.metrics, {}, log_);
    if (!edge) return give_up(edge.error(), edge_code_for(edge.error()));
    log_->write(log_level::info, "port open", {{"address", (*edge)->address()}});
    auto loaded = load(models, **edge);
    if (!loaded) return give_up(loaded.error(), start_code_for(loaded.error()));
    runtime = *std::move(loaded);
    tell_models(*log_, chosen.engine, *runtime);
    models.serve(server::make_engine_backend(*runtime));
    is_ready_ = true;
    announce(**edge);
    obey(*runtime, **edge);
    drain(**edge, "stopped");
    return exit_success;
  }

 private:
  /// Loads the models. Signals are handled meanwhile.
  expected<std::unique_ptr<engine>> load(server::late_backend& models, server::http_server& edge) {
    const auto show = [this, &models](const load_progress& p) {
      models.note(p);
      if (p.done == p.total) log_->write(log_level::info, "loaded", {{"what", p.stage}});
    };
    model_load loading(started_.config.engine, show, [this] { signals_.wake_up(); });
    int told = -1;
    while (!loading.has_ended()) {
      if (const auto percent = models.loading()->percent(); std::exchange(told, percent) != percent)
        manager_.status("loading " + std::to_string(percent) + " %");
      const auto signal = signals_.wait(progress_interval);
      if (signal == SIGHUP) reload(edge);
      if (signal != SIGTERM && signal != SIGINT) continue;
      drain(edge, "stopped while loading");
      std::_Exit(exit_success); // the load cannot be interrupted, and loses nothing
    }
    return loading.take();
  }

  void announce(const server::http_server& edge) {
    log_->write(log_level::info, "serving",
                {{"address", edge.address()}, {"models", models_}, {"version", PACELINE_VERSION}});
    if (started_.config.server.allow_unauthenticated && started_.config.server.api_keys_file.empty())
      log_->write(log_level::warning,
                  "anyone who reaches this address may use it: server.allow_unauthenticated");
    if (const auto certificate = edge.certificate()) tell_certificate(*certificate);
    std::printf("listening on %s\n", edge.address().c_str());
    std::fflush(stdout);
    manager_.ready("listening on " + edge.address());
  }

  void tell_certificate(const server::certificate_facts& certificate) {
    const bool is_over = certificate.not_after <= std::time(nullptr);
    log_->write(is_over ? log_level::warning : log_level::info,
                is_over ? "the certificate has expired" : "certificate",
                {{"subject", certificate.subject}, {"valid_till", certificate.valid_till}});
  }

  /// Handles signals until one ends the process.
  void obey(const engine& runtime, server::http_server& edge) {
    const auto interval = std::min(manager_.watchdog_interval().value_or(health_check), health_check);
    bool was_healthy = true;
    server::fault_log faults(log_);
    for (;;) {
      const auto signal = signals_.wait(interval);
      if (signal == SIGTERM || signal == SIGINT) return;
      if (signal == SIGHUP) reload(edge);
      faults.tell(runtime.faults());
      const bool healthy = runtime.healthy();
      if (was_healthy && !healthy)
        log_->write(log_level::error, "unhealthy: no model serves, or a device or the supervisor has failed");
      was_healthy = healthy;
      if (healthy) manager_.alive(); // otherwise the manager restarts the process
    }
  }

  void reload(server::http_server& edge) {
    if (is_ready_) manager_.reloading();
    auto fresh = config::load(options_.config, config::process_environment(), overrides_);
    std::string reasons;
    server::edge_changes changes;
    if (!fresh.ok()) {
      edge.count_refused_reload();
      for (const auto& e : fresh.errors) reasons += (reasons.empty() ? "" : "; ") + e;
    } else if (const auto taken = edge.reload(fresh.config.server, fresh.config.metrics); taken) {
      changes = *taken;
    } else {
      reasons = taken.error().message();
    }
    if (!reasons.empty()) {
      log_->write(log_level::error, "configuration refused, the old one stays", {{"reason", reasons}});
      if (is_ready_) manager_.ready("configuration refused");
      return;
    }
    log_->set_level(fresh.config.logging.level);
    if (const auto opened = log_->reopen(); !opened)
      log_->write(log_level::warning, opened.error().message());
    tell_changes(fresh, changes);
    running_ = std::move(fresh);
    if (is_ready_) manager_.ready("listening on " + edge.address());
  }

  /// Logs the options that changed and those that need a restart. An option also counts as changed if its
  /// file has other contents than before.
  void tell_changes(const config::load_result& fresh, const server::edge_changes& changes) {
    std::set<std::string> changed;
    std::set<std::string> later;
    for (const auto& [path, reloadable] : config::changed(running_, fresh))
      if (reloadable) changed.insert(path);
    for (const auto& [path, reloadable] : config::changed(started_, fresh))
      if (!reloadable) later.insert(path);
    if (changes.keys.any()) changed.insert("server.api_keys_file");
    if (changes.certificate) changed.insert("server.tls.certificate");
    log_->write(log_level::info, "configuration read again",
                {{"changed", joined(changed, ",")}, {"after_restart", joined(later, ",")}});
    if (const auto& keys = changes.keys; keys.any())
      log_->write(log_level::info, "keys changed",
                  {{"added", keys.added}, {"removed", keys.removed}, {"other_rights", keys.changed}});
    if (changes.certificate) tell_certificate(*changes.certificate);
  }

  /// `last_words` is the log's message if no request was cut short.
  void drain(server::http_server& edge, std::string_view last_words) {
    const auto time = running_.config.shutdown.drain_timeout;
    manager_.stopping("draining");
    log_->write(log_level::info, "draining (SIGINT ends at once)", {{"timeout_ms", time.count()}});
    signals_.let_interrupt_end_it();
    const bool drained = edge.stop(time);
    drained ? log_->write(log_level::info, last_words)
            : log_->write(log_level::warning, "stopped before every request had ended");
  }

  /// Reports a failed start in the log, and on standard error if the log is elsewhere.
  int give_up(const error& why, int code) {
    log_->write(log_level::error, why.message());
    if (!started_.config.logging.file.empty() || !log_->wants(log_level::error))
      std::fprintf(stderr, "paceline: %s\n", why.message().c_str());
    return code;
  }

  const signals signals_; // first: every thread inherits the blocked signals
  const service_manager manager_;
  const serve_options& options_;
  const std::vector<config::assignment> overrides_;
  const config::load_result started_; ///< the configuration at the start
  config::load_result running_;       ///< the same with the changes of reloads
  std::shared_ptr<server::event_log> log_;
  std::string models_;    ///< the models' names, for messages
  bool is_ready_ = false; ///< true once the models serve
};

} // namespace

int serve(const serve_options& options) {
  keep_standard_streams();
  raise_descriptor_limit();
  auto overrides = overrides_of(options);
  if (!overrides) {
    std::fprintf(stderr, "paceline: %s\n", overrides.error().message().c_str());
    return exit_usage;
  }
  auto loaded = config::load(options.config, config::process_environment(), *overrides);
  if (!loaded.ok()) return report(loaded);
  if (options.print_config) {
    std::printf("%s", config::print(loaded).c_str());
    return exit_success;
  }
  return daemon(options, *std::move(overrides), std::move(loaded)).run();
}

} // namespace paceline::apps
