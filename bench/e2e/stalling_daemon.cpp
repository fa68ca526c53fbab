// A daemon whose scheduler stalls: the bound that it asks of a drafter for the length of a lease takes 250
// ms. For bench/e2e/busy_edge.py, which sees what other clients notice of that.
//
//     stalling_daemon --config FILE [MODEL...]
//
// Serves the configuration; the named models get that drafter and no other.

#include "config/load.hpp"
#include "engine/probe.hpp"
#include "runtime/speculation/drafters/registry.hpp"
#include "server/server.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace paceline {
namespace {

constexpr auto stall = std::chrono::milliseconds(250);
constexpr auto* kind = "stalling";

struct no_memory final : speculation::drafter_session {};

/// Proposes nothing, slowly.
class stalling_drafter final : public speculation::drafter {
 public:
  stalling_drafter() { traits_.name = kind; }
  const speculation::drafter_traits& traits() const noexcept override { return traits_; }
  std::unique_ptr<speculation::drafter_session> open(request_id) override {
    return std::make_unique<no_memory>();
  }
  void propose(device::ops&, model::kv_storage*, std::span<speculation::draft_task> tasks) override {
    for (auto& task : tasks) task.result = {.base_length = static_cast<std::uint32_t>(task.tokens.size())};
  }
  std::uint32_t max_nodes(std::uint32_t draft_length) const noexcept override {
    std::this_thread::sleep_for(stall);
    return draft_length;
  }

 private:
  speculation::drafter_traits traits_;
};

int fail(const std::string& why) {
  std::fprintf(stderr, "stalling_daemon: %s\n", why.c_str());
  return 1;
}

int serve(const std::string& file, const std::vector<std::string>& stalled) {
  auto loaded = config::load(file, config::process_environment(), {});
  if (!loaded.ok()) return fail(loaded.errors.front());
  for (auto& model : loaded.config.engine.models) {
    if (std::ranges::find(stalled, model.name) == stalled.end()) continue;
    config::drafter_options stalling;
    stalling.name = stalling.kind = kind;
    model.drafters = {stalling};
    model.default_drafter = kind;
  }
  auto registry = speculation::drafter_registry::with_built_in();
  registry.add(kind, [](const auto&) -> expected<std::unique_ptr<speculation::drafter>> {
    return std::unique_ptr<speculation::drafter>(std::make_unique<stalling_drafter>());
  });
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr); // for all threads that are created later
  auto runtime = engine_probe::start(loaded.config.engine, std::move(registry));
  if (!runtime) return fail(runtime.error().message());
  auto edge = server::start(**runtime, loaded.config.server, loaded.config.metrics);
  if (!edge) return fail(edge.error().message());
  std::printf("listening on %s\n", (*edge)->address().c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  (*edge)->stop(std::chrono::seconds(1));
  return 0;
}

} // namespace
} // namespace paceline

int main(int argc, char** argv) {
  if (argc < 3 || std::string(argv[1]) != "--config")
    return paceline::fail("usage: --config FILE [MODEL...]");
  return paceline::serve(argv[2], {argv + 3, argv + argc});
}
