#pragma once

#include "server/fair_share.hpp"
#include "server/sessions/replay_log.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace paceline::server {

/// The responses that can be named from outside their connection: running ones, to be cancelled, and
/// resumable ones, to be read again. Thread-safe. An id of another tenant is treated as unknown.
class response_registry {
 public:
  response_registry(std::size_t max_resumable, std::chrono::milliseconds retention)
      : retention_(retention), places_(max_resumable) {}

  struct entry {
    std::string tenant;
    executor_ptr executor;
    std::weak_ptr<response_session> session;
    std::shared_ptr<response_session> kept; ///< resumable: the registry owns it
    std::shared_ptr<replay_log> log;        ///< resumable
  };

  /// False if no more resumable responses fit, of this tenant among `num_tenants`.
  [[nodiscard]] bool add(const std::string& id, entry added, std::size_t num_tenants);
  /// Forgets a response that is not resumable.
  void remove(const std::string& id);

  /// Posts a cancel to the response; false if there is none running of that name.
  bool cancel(const std::string& id, const std::string& tenant);
  /// Log of a resumable response; none if unknown.
  std::shared_ptr<replay_log> log(const std::string& id, const std::string& tenant) const;

  /// Drops resumable responses that nobody has read for the retention time, ending those that still run.
  void sweep(time_point now);
  /// Drops one of them, like one that nobody has read for that time.
  void evict(const std::string& id);
  /// Ends everything.
  void clear();

  std::size_t num_resumable() const;

 private:
  using entries = std::map<std::string, entry>;
  entries::iterator drop(entries::iterator one);

  const std::chrono::milliseconds retention_;
  mutable std::mutex mutex_;
  entries entries_;
  fair_share places_; ///< of resumable responses
};

} // namespace paceline::server
