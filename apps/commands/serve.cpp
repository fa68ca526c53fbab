#include "apps/commands/options.hpp"
#include "apps/exit_codes.hpp"
#include "apps/service_manager.hpp"
#include "apps/signals.hpp"

#include "config/device_name.hpp"
#include "config/drafters.hpp"
#include "config/load.hpp"
#include "engine/engine.hpp"
#include "engine/served_model.hpp"
#include "runtime/model/heads/head_kind.hpp"
#include "server/fault_log.hpp"
#include "server/server.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <future>
#include <sys/resource.h>

namespace paceline::apps {

namespace {

int report(const config::load_result& loaded) {
  for (const auto& e : loaded.errors) std::fprintf(stderr, "paceline: %s\n", e.c_str());
  return exit_config;
}

/// Flags as overrides of the configuration; they have the highest precedence.
expected<std::vector<config::assignment>> overrides_of(const serve_options& options) {
  std::vector<config::assignment> out;
  out.reserve(16 + options.set.size()); // without, GCC 12 warns of a write beyond an empty vector
  const auto set = [&](std::string path, std::string value) {
    out.emplace_back(std::move(path), std::move(value));
  };
  if (options.model) {
    if (*options.model == "hash") {
      set("models.0.kind", "hash");
      set("models.0.name", "hash");
    } else {
      set("models.0.path", *options.model);
      set("models.0.name", std::filesystem::path(*options.model).stem().string());
    }
  }
  if (options.draft_head) {
    auto kind = model::kind_of_head(*options.draft_head);
    if (!kind) return std::move(kind).error();
    set("models.0.drafters.0.name", *kind);
    set("models.0.drafters.0.kind", *kind);
    set("models.0.drafters.0.path", *options.draft_head);
    for (const std::string in_line : {"ngram", "suffix"}) { // what `auto` has beside it
      const std::string at = in_line == "ngram" ? "1" : "2";
      set("models.0.drafters." + at + ".name", in_line);
      set("models.0.drafters." + at + ".kind", in_line);
    }
  }
  if (options.host) set("server.host", *options.host);
  if (options.port) set("server.port", std::to_string(*options.port));
  if (options.threads) set("engine.threads", *options.threads);
  for (const auto& text : options.set) {
    auto parsed = config::parse_assignment(text);
    if (!parsed) return error{errc::invalid_argument, "--set: \"" + text + "\" has no ="};
    out.push_back(*std::move(parsed));
  }
  return out;
}

/// Opens closed standard streams: otherwise a socket would get their number, and a client our output.
void keep_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    [[maybe_unused]] const int taken = ::open("/dev/null", O_RDWR); // the lowest free number, so this one
  }
}

/// As many descriptors as the system lets us have: the usual soft limit of 1024 is below `max_connections`
/// and what the process opens itself. Not required: without it silent connections give way earlier.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// The exit code for a failed start: a configuration error, unless something is missing, unreadable or in
/// use.
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

/// Runs from reading the configuration to the end of the process.
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
    for (const auto& warning : started_.warnings) log_->write(log_level::warning, warning);
    for (const auto& model : started_.config.engine.models)
      models_ += (models_.empty() ? "" : ",") + model.name;
    log_->write(log_level::info, "loading", {{"models", models_}});
    warn_of_fast_devices();
    tell_drafters();
    const auto& chosen = started_.config;
    if (const auto able = server::check_start(chosen.server, chosen.metrics); !able)
      return give_up(able.error(), edge_code_for(able.error())); // a load may take minutes
    auto runtime = load();
    if (!runtime) return give_up(runtime.error(), start_code_for(runtime.error()));
    warn_of_contexts(**runtime);
    tell_draft_lengths(**runtime);
    tell_pass_times(**runtime);
    auto edge = server::start(**runtime, chosen.server, chosen.metrics, log_);
    if (!edge) return give_up(edge.error(), edge_code_for(edge.error()));
    announce(**edge);
    obey(**runtime, **edge);
    drain(**edge);
    return exit_success;
  }

 private:
  /// Loads the models on a thread of their own, so that a signal can end even a load that takes minutes.
  expected<std::unique_ptr<engine>> load() {
    const auto show = [this](const load_progress& p) {
      if (p.done == p.total) log_->write(log_level::info, "loaded", {{"what", p.stage}});
    };
    std::atomic<bool> done{false};
    auto loading = std::async(std::launch::async, [&] {
      auto made = engine::start(started_.config.engine, show);
      done = true;
      signals_.wake_up();
      return made;
    });
    while (!done) {
      if (signals_.wait_while_loading() == signals::wake) continue;
      log_->write(log_level::info, "stopped while loading");
      manager_.stopping("stopped while loading");
      std::_Exit(exit_success); // the load cannot be interrupted, and loses nothing
    }
    try {
      return loading.get();
    } catch (const std::exception& e) { // no memory, no threads
      return error{errc::resource_exhausted,
                   std::string("not enough memory or threads for the models: ") + e.what()};
    }
  }

  void warn_of_fast_devices() {
    for (const auto& model : started_.config.engine.models)
      if (const auto device = config::parse_device(model.device);
          device && device->mode == config::gpu_mode::fast)
        log_->write(log_level::warning, "fast mode: texts may depend on what else is computed (docs/gpu.md)",
                    {{"model", model.name}, {"device", model.device}});
  }

  /// Logs which drafters each model has, and why.
  void tell_drafters() {
    for (const auto& model : started_.config.engine.models) {
      std::string names;
      for (const auto& drafter : config::drafters_of(model))
        names += (names.empty() ? "" : ",") + drafter.name;
      log_->write(log_level::info, "drafters",
                  {{"model", model.name},
                   {"names", names},
                   {"default", model.default_drafter},
                   {"why", model.drafters.empty() ? "none listed: those that need no model" : "listed"}});
    }
  }

  /// A model has no positions beyond those it was made for, whatever is configured.
  void warn_of_contexts(const engine& runtime) {
    for (const auto& asked : started_.config.engine.models)
      if (const auto* model = runtime.model(asked.name); model->context_length() < asked.context_length)
        log_->write(
            log_level::warning, "the configured context is above the model's own, which is used",
            {{"model", asked.name}, {"configured", asked.context_length}, {"used", model->context_length()}});
  }

  /// How many levels each drafter drafts: where the configuration does not say it, the loaded heads do.
  void tell_draft_lengths(const engine& runtime) {
    for (const auto* model : runtime.models()) {
      std::string lengths;
      for (std::size_t i = 1; i < model->drafters().size(); ++i) // behind "none"
        lengths += (lengths.empty() ? "" : " ") + model->drafters()[i] + ":" +
                   std::to_string(model->draft_lengths()[i]);
      log_->write(log_level::info, "draft lengths", {{"model", model->name()}, {"levels", lengths}});
    }
  }

  /// What a pass over one row takes, and over more beside it: why drafting pays here or does not.
  void tell_pass_times(const engine& runtime) {
    for (const auto* model : runtime.models()) {
      const auto& times = model->pass_times();
      if (times.empty()) continue;
      const double one = times.front().nanoseconds;
      std::string ratios;
      char text[48];
      for (const auto& [rows, nanoseconds] : times) {
        std::snprintf(text, sizeof text, "%s%u:%.2f", ratios.empty() ? "" : " ", rows, nanoseconds / one);
        ratios += text;
      }
      std::snprintf(text, sizeof text, "%.2f", one / 1e6);
      log_->write(log_level::info, "passes timed",
                  {{"model", model->name()}, {"one_row_ms", text}, {"rows_to_cost", ratios}});
    }
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
      if (signal && *signal != SIGHUP) return;
      if (signal) reload(edge);
      faults.tell(runtime.faults());
      const bool healthy = runtime.healthy();
      if (was_healthy && !healthy)
        log_->write(log_level::error, "unhealthy: no model serves, or a device or the supervisor has failed");
      was_healthy = healthy;
      if (healthy) manager_.alive(); // otherwise the manager restarts the process
    }
  }

  void reload(server::http_server& edge) {
    manager_.reloading();
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
      manager_.ready("configuration refused");
      return;
    }
    log_->set_level(fresh.config.logging.level);
    if (const auto opened = log_->reopen(); !opened)
      log_->write(log_level::warning, opened.error().message());
    std::string changed;
    std::string later;
    for (const auto& [path, reloadable] : config::changed(running_, fresh))
      if (reloadable) changed += (changed.empty() ? "" : ",") + path;
    for (const auto& [path, reloadable] : config::changed(started_, fresh))
      if (!reloadable) later += (later.empty() ? "" : ",") + path;
    log_->write(log_level::info, "configuration read again",
                {{"changed", changed}, {"after_restart", later}});
    if (const auto& keys = changes.keys;
        keys.any()) // the option has the same path as before: what it names has changed
      log_->write(log_level::info, "keys changed",
                  {{"added", keys.added}, {"removed", keys.removed}, {"other_rights", keys.changed}});
    if (changes.certificate) tell_certificate(*changes.certificate);
    running_ = std::move(fresh);
    manager_.ready("listening on " + edge.address());
  }

  void drain(server::http_server& edge) {
    const auto time = running_.config.shutdown.drain_timeout;
    manager_.stopping("draining");
    log_->write(log_level::info, "draining (SIGINT ends at once)", {{"timeout_ms", time.count()}});
    signals_.let_interrupt_end_it();
    const bool drained = edge.stop(time);
    drained ? log_->write(log_level::info, "stopped")
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
  std::string models_; ///< their names, for messages
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
