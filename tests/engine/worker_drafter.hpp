#pragma once

#include "config/engine_options.hpp"
#include "runtime/speculation/drafters/registry.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>

namespace paceline::testing {

struct empty_session final : speculation::drafter_session {
  std::unique_ptr<speculation::drafter_session> clone() const override {
    return std::make_unique<empty_session>();
  }
};

/// What a test observes of drafters of kind "worker", and its switches for them. Must outlive them.
struct worker_watch {
  std::atomic<std::uint32_t> num_drafts{0};
  std::atomic<bool> broken{false}; ///< every attempt to draft fails
};

/// A drafter that proposes nonsense on a stream of its own.
class worker_drafter final : public speculation::drafter {
 public:
  explicit worker_drafter(worker_watch& watch) : watch_(&watch) {
    traits_.name = "worker";
    traits_.where = speculation::placement::worker;
  }
  const speculation::drafter_traits& traits() const noexcept override { return traits_; }
  std::unique_ptr<speculation::drafter_session> open(request_id) override {
    return std::make_unique<empty_session>();
  }
  void propose(device::ops&, model::kv_storage*, std::span<speculation::draft_task> tasks) override {
    ++watch_->num_drafts;
    if (watch_->broken) throw std::runtime_error("it is broken");
    for (auto& task : tasks) {
      task.result = {.base_length = static_cast<std::uint32_t>(task.tokens.size())};
      task.result.tree.add(token_id{1}, speculation::token_tree::root);
    }
  }

 private:
  speculation::drafter_traits traits_;
  worker_watch* watch_;
};

/// The built-in kinds and "worker".
inline speculation::drafter_registry registry_with_worker(worker_watch& watch) {
  auto registry = speculation::drafter_registry::with_built_in();
  registry.add("worker", [&watch](const auto&) -> expected<std::unique_ptr<speculation::drafter>> {
    return std::unique_ptr<speculation::drafter>(std::make_unique<worker_drafter>(watch));
  });
  return registry;
}

inline config::drafter_options drafter_of_kind(const char* kind) {
  config::drafter_options drafter;
  drafter.name = drafter.kind = kind;
  return drafter;
}

} // namespace paceline::testing
