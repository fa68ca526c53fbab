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

/// Writes what newly failed in an engine into the log, at most one line a part each time it is asked. Not
/// thread-safe.
class fault_log {
 public:
  explicit fault_log(std::shared_ptr<event_log> log) : log_(std::move(log)) {}

  /// `faults`: all since the engine's start, as `engine::faults` tells them.
  void tell(const std::vector<engine_fault>& faults);

 private:
  std::shared_ptr<event_log> log_;
  std::map<std::string, std::uint64_t> num_told_; ///< by part
};

} // namespace paceline::server
