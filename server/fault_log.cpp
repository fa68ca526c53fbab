#include "server/fault_log.hpp"

namespace paceline::server {

void fault_log::tell(const std::vector<engine_fault>& faults) {
  using config::log_level;
  for (const auto& fault : faults) {
    auto& told = num_told_[fault.part];
    const auto fresh = fault.num - std::exchange(told, fault.num);
    if (fresh == 0) continue;
    log_->write(fault.is_lost ? log_level::error : log_level::warning,
                fault.is_lost ? "a part failed for good" : "a part failed",
                {{"part", fault.part},
                 {"model", fault.model},
                 {"drafter", fault.drafter},
                 {"reason", fault.reason},
                 {"times", fresh}});
  }
}

} // namespace paceline::server
