#pragma once

#include "protocol/wire/response_output.hpp"
#include "server/fair_share.hpp"
#include "server/sessions/replay_log.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace paceline::server {

/// The responses to which other connections may refer by id: running ones, to cancel them, and resumable
/// ones, to read them again. Thread-safe. For `cancel`, `in_progress` and `log`, an id of another
/// tenant is unknown.
class response_registry {
 public:
  response_registry(std::size_t max_resumable, std::chrono::milliseconds retention)
      : retention_(retention), places_(max_resumable) {}

  struct entry {
    std::string tenant;
    executor_ptr executor;
    std::weak_ptr<response_session> session;
    std::shared_ptr<response_session> kept; ///< for resumable responses, which the registry owns
    std::shared_ptr<replay_log> log;        ///< for resumable responses
    // The response object without its output, as the endpoints return it while the response runs.
    std::shared_ptr<const wire::output_json> in_progress = nullptr;
    std::shared_ptr<const wire::output_json> cancelled = nullptr;
  };

  /// False if no place is left for a resumable response of the entry's tenant, which is one of `num_tenants`
  /// tenants (fair_share).
  [[nodiscard]] bool add(const std::string& id, entry added, std::size_t num_tenants);
  /// Removes a response that is not resumable.
  void remove(const std::string& id);

  /// Posts a cancellation to the response and returns its object with the status "cancelled"; null if no
  /// response of that id is running.
  std::shared_ptr<const wire::output_json> cancel(const std::string& id, const std::string& tenant);
  /// The object of a running response; null if none of that id is running.
  std::shared_ptr<const wire::output_json> in_progress(const std::string& id,
                                                       const std::string& tenant) const;
  /// Log of a resumable response; null if unknown.
  std::shared_ptr<replay_log> log(const std::string& id, const std::string& tenant) const;

  /// Drops resumable responses that have had no reader for the retention time. Ends those that still run.
  void sweep(time_point now);
  /// Drops one response as `sweep` does.
  void evict(const std::string& id);
  /// Ends all responses.
  void clear();

  std::size_t num_resumable() const;

 private:
  using entries = std::map<std::string, entry>;
  /// The running response of that id; null: there is none.
  const entry* running(const std::string& id, const std::string& tenant) const;
  entries::iterator drop(entries::iterator one);

  const std::chrono::milliseconds retention_;
  mutable std::mutex mutex_;
  entries entries_;
  fair_share places_; ///< for resumable responses
};

} // namespace paceline::server
