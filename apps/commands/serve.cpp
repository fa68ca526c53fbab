#include "apps/commands/options.hpp"
#include "apps/exit_codes.hpp"

#include "config/load.hpp"
#include "engine/engine.hpp"
#include "server/server.hpp"

#include <csignal>
#include <cstdio>
#include <filesystem>

namespace paceline::apps {

namespace {

int report(const config::load_result& loaded) {
  for (const auto& e : loaded.errors) std::fprintf(stderr, "paceline: %s\n", e.c_str());
  return exit_config;
}

/// Flags as overrides of the configuration, which come last and win.
expected<std::vector<config::assignment>> overrides_of(const serve_options& options) {
  std::vector<config::assignment> out;
  if (options.model) {
    if (*options.model == "hash") {
      out.emplace_back("models.0.kind", "hash");
      out.emplace_back("models.0.name", "hash");
    } else {
      out.emplace_back("models.0.path", *options.model);
      out.emplace_back("models.0.name", std::filesystem::path(*options.model).stem().string());
    }
    if (!options.config) {
      out.emplace_back("models.0.drafters.0.name", "ngram");
      out.emplace_back("models.0.drafters.0.kind", "ngram");
      out.emplace_back("models.0.default_drafter", "ngram");
    }
  }
  if (options.host) out.emplace_back("server.host", *options.host);
  if (options.port) out.emplace_back("server.port", std::to_string(*options.port));
  if (options.threads) out.emplace_back("threads", *options.threads);
  for (const auto& text : options.set) {
    auto parsed = config::parse_assignment(text);
    if (!parsed) return error{errc::invalid_argument, "--set: \"" + text + "\" has no ="};
    out.push_back(*std::move(parsed));
  }
  return out;
}

void show_loading(const load_progress& p) {
  if (p.done == p.total) std::fprintf(stderr, "loaded %s\n", p.stage.c_str());
}

} // namespace

int check_config(const std::string& path) {
  const auto loaded = config::load(path, config::process_environment(), {});
  for (const auto& w : loaded.warnings) std::fprintf(stderr, "warning: %s\n", w.c_str());
  if (!loaded.ok()) return report(loaded);
  std::printf("%s: OK\n", path.c_str());
  return exit_success;
}

int serve(const serve_options& options) {
  const auto overrides = overrides_of(options);
  if (!overrides) {
    std::fprintf(stderr, "paceline: %s\n", overrides.error().message().c_str());
    return exit_usage;
  }
  const auto loaded = config::load(options.config, config::process_environment(), *overrides);
  for (const auto& w : loaded.warnings) std::fprintf(stderr, "warning: %s\n", w.c_str());
  if (!loaded.ok()) return report(loaded);
  if (options.print_config) {
    std::printf("%s", config::print(loaded).c_str());
    return exit_success;
  }
  // Blocked before any thread starts, so that only this one gets them, loading included.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  auto runtime = engine::start(loaded.config.engine, show_loading);
  if (!runtime) {
    std::fprintf(stderr, "paceline: %s\n", runtime.error().message().c_str());
    return code_for(runtime.error());
  }
  auto edge = server::start(**runtime, loaded.config.server, loaded.config.metrics);
  if (!edge) {
    std::fprintf(stderr, "paceline: %s\n", edge.error().message().c_str());
    return exit_unavailable;
  }
  std::printf("listening on %s\n", (*edge)->address().c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  std::fprintf(stderr, "draining for at most %lld ms (SIGINT ends at once)\n",
               static_cast<long long>(loaded.config.shutdown.drain_timeout.count()));
  sigdelset(&signals, SIGTERM); // sent again by a service manager: the drain goes on
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr); // a person who insists
  (*edge)->stop(loaded.config.shutdown.drain_timeout);
  return exit_success;
}

} // namespace paceline::apps
