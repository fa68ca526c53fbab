#pragma once

#include "server/executor.hpp"
#include "server/fair_share.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>

namespace paceline::server {

/// Jobs that wait for a thread of edge_pool. Tenants take turns. The jobs of one tenant run in order, except
/// that jobs that continue an earlier one come first. Small jobs overtake large jobs while no further large
/// job may run. Not thread-safe.
class job_queue {
 public:
  struct job {
    std::function<void()> run;
    bool large = false;
  };

  explicit job_queue(std::size_t max_waiting) : places_(max_waiting) {}

  /// False if too many jobs wait already.
  [[nodiscard]] bool push(std::function<void()> run, const job_traits& traits) {
    if (!places_.take(traits.tenant, traits.num_tenants)) return false;
    auto found = lines_.begin();
    while (found != lines_.end() && found->tenant != traits.tenant) ++found;
    if (found == lines_.end()) found = lines_.insert(found, line{traits.tenant, {}});
    found->jobs.insert(traits.continues ? found->jobs.begin() : found->jobs.end(),
                       {std::move(run), traits.large});
    return true;
  }

  /// Removes and returns the next job; nullopt if no waiting job may run.
  std::optional<job> pop(bool large_ones_may_run) {
    for (auto turn = lines_.begin(); turn != lines_.end(); ++turn) {
      auto& jobs = turn->jobs;
      auto next = jobs.begin();
      while (next != jobs.end() && next->large && !large_ones_may_run) ++next;
      if (next == jobs.end()) continue;
      job taken = std::move(*next);
      jobs.erase(next);
      places_.give_back(turn->tenant);
      if (jobs.empty())
        lines_.erase(turn);
      else
        lines_.splice(lines_.end(), lines_, turn); // moved to the end of the queue
      return taken;
    }
    return std::nullopt;
  }
  void clear() {
    lines_.clear();
    places_.clear();
  }

 private:
  struct line {
    std::string tenant;
    std::deque<job> jobs;
  };

  fair_share places_;
  std::list<line> lines_; ///< one for each tenant with waiting jobs, in the order of their turns
};

} // namespace paceline::server
