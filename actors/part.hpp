#pragma once

#include "runtime/base/ids.hpp"

#include <compare>
#include <cstdint>
#include <string>

namespace paceline::actors {

enum class part_kind : std::uint8_t {
  supervisor,
  kv_pool,
  fan_out,
  scheduler,
  target_verifier,
  draft_worker,
  drafter, ///< a drafter as used by a worker or by the verifier's programs
};

/// One part of an engine. Every part except a drafter is an actor. A restart replaces the actor by a new one.
struct part {
  part_kind kind = part_kind::kv_pool;
  model_number model{};    ///< for parts of one model
  drafter_index drafter{}; ///< for draft workers and drafters

  /// True if the part works for one model only.
  bool serves_one_model() const noexcept { return kind >= part_kind::scheduler; }

  friend bool operator==(const part&, const part&) = default;
  friend auto operator<=>(const part&, const part&) = default;
};

inline constexpr part the_supervisor{part_kind::supervisor};
inline constexpr part the_kv_pool{part_kind::kv_pool};
inline constexpr part the_fan_out{part_kind::fan_out};
constexpr part scheduler_of(model_number model) { return {part_kind::scheduler, model}; }
constexpr part verifier_of(model_number model) { return {part_kind::target_verifier, model}; }
constexpr part worker_of(model_number model, drafter_index drafter) {
  return {part_kind::draft_worker, model, drafter};
}
constexpr part drafter_of(model_number model, drafter_index drafter) {
  return {part_kind::drafter, model, drafter};
}

/// Name in the directory, logs and metrics: "kv_pool", "scheduler/0", "draft_worker/0/1", "drafter/0/1".
std::string to_string(const part& of);

} // namespace paceline::actors
