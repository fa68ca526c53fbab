#pragma once

#include "server/sessions/kept_memory.hpp"
#include "server/sessions/response_session.hpp"

#include <chrono>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace paceline::server {

/// A finished response that the client lets the server keep. Immutable.
struct stored_response {
  wire::output_json object;                                      ///< the response object
  std::vector<wire::chat_message> conversation;                  ///< all turns, with the answer
  std::size_t num_input_turns = 0;                               ///< those before the answer
  std::vector<std::shared_ptr<const wire::response_part>> items; ///< of the output; shared with `object`
};

/// Limits of a store.
struct store_limits {
  std::size_t max_entries = 0;      ///< for each tenant; beyond it, the tenant's oldest response is dropped
  std::size_t max_entry_bytes = 0;  ///< a larger response is not kept
  std::chrono::milliseconds ttl{0}; ///< lifetime, counted from the end of the response
};

/// Finished responses, for GET, DELETE and `previous_response_id` of any connection. A tenant sees only its
/// own responses: an id of another tenant counts as unknown. `kept_memory` limits the memory of the responses
/// of all tenants. Thread-safe.
///
/// Invariant: the entries of a tenant are in the order in which they were added, so the first one expires
/// first.
class response_store : public std::enable_shared_from_this<response_store> {
 public:
  response_store(store_limits limits, std::shared_ptr<kept_memory> kept)
      : limits_(limits), kept_(std::move(kept)) {}

  /// Keeps a copy of `finished`, unless it needs more than `max_entry_bytes`.
  void put(const std::string& tenant, const finished_response& finished, time_point now);
  /// Null if it is unknown, was evicted or has expired. Counts as a use.
  std::shared_ptr<const stored_response> find(const std::string& id, const std::string& tenant,
                                              time_point now);
  /// An item of a kept response's output, as a turn of the assistant; nullopt if no kept response has it.
  std::optional<wire::chat_message> find_item(const std::string& item_id, const std::string& tenant,
                                              time_point now);
  /// False if there was no such response, or it had expired.
  bool remove(const std::string& id, const std::string& tenant, time_point now);

  /// Drops expired responses.
  void sweep(time_point now);
  void clear();

  std::size_t num_entries() const;

 private:
  struct entry {
    std::string id;
    time_point expires{};
    std::shared_ptr<const stored_response> response;
    std::shared_ptr<kept_memory::claim> claim;
  };
  using entries = std::list<entry>;
  using tenants = std::map<std::string, entries>;
  struct place {
    tenants::iterator tenant;
    entries::iterator entry;
  };

  /// The tenant's entry of that id; null if there is none or it has expired.
  const place* find_place(const std::string& id, const std::string& tenant, time_point now) const;
  /// Moves an entry to `dropped`. The caller destroys that list after it has released the lock.
  void drop(const place& one, entries& dropped);
  void evict(const std::string& id);

  const store_limits limits_;
  const std::shared_ptr<kept_memory> kept_;
  mutable std::mutex mutex_;
  tenants tenants_; ///< without empty lists
  std::unordered_map<std::string, place> places_;
};

} // namespace paceline::server
