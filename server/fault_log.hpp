#pragma once

#include "engine/snapshot.hpp"
#include "server/event_log.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace paceline::server {

/// Logs those failures of an engine that have not been logged before. A call writes at most one line for each
/// part of the engine. Not thread-safe.
class fault_log {
 public:
  explicit fault_log(std::shared_ptr<event_log> log) : log_(std::move(log)) {}

  /// `faults`: the result of `engine::faults`, which counts the failures since the engine's start.
  void tell(const std::vector<engine_fault>& faults);

 private:
  std::shared_ptr<event_log> log_;
  std::map<std::string, std::uint64_t> num_told_; ///< failures already logged, by part
};

} // namespace paceline::server
