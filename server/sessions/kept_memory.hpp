#pragma once

#include "server/tenant_bytes.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace paceline::server {

/// Limits the memory that is kept for later requests, over all clients: stored responses, conversations that
/// WebSocket clients may continue, and logs of resumable responses. When it is used up, unused entries are
/// evicted. The tenant that holds most loses its least recently used entry first. Thread-safe.
///
/// Invariant: `resting_` lists the unused claims of each tenant, which may be evicted, the longest unused
/// first. None of them has been evicted.
class kept_memory : public std::enable_shared_from_this<kept_memory> {
 public:
  static constexpr auto no_bound = std::numeric_limits<std::uint64_t>::max();

  /// The claim of one entry. Its bytes are returned when the owner destroys it.
  class claim {
   public:
    claim(std::shared_ptr<kept_memory> memory, std::string tenant, std::function<void()> evict);
    ~claim();
    claim(const claim&) = delete;
    claim& operator=(const claim&) = delete;

    /// Sets the entry's size to `bytes`. Does not evict other entries: see `make_room`.
    void resize(std::size_t bytes);
    /// Marks the entry as unused: it may be evicted, after the tenant's entries that have been unused for
    /// longer.
    void rest();
    /// Marks the entry as used, so that it is not evicted. False if it was evicted before.
    [[nodiscard]] bool wake();

   private:
    friend class kept_memory;
    void end_rest();
    const std::shared_ptr<kept_memory> memory_;
    const std::string tenant_;
    std::function<void()> evict_;
    std::uint64_t num_bytes_ = 0;
    bool rests_ = false;
    bool evicted_ = false;
    std::list<claim*>::iterator position_; ///< while it is unused
  };

  explicit kept_memory(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  /// A new entry, marked as used. `evict` frees its memory; it is called at most once, on any thread, while
  /// no lock of this object is held.
  std::shared_ptr<claim> open(std::string tenant, std::function<void()> evict);
  /// Evicts unused entries until the remaining entries fit. False if the entries in use alone do not fit. The
  /// caller must not hold a lock that `evict` takes.
  bool make_room();

  std::uint64_t num_bytes() const;
  std::uint64_t num_evicted() const noexcept { return num_evicted_.load(std::memory_order_relaxed); }

 private:
  claim* longest_rested() const;

  const std::uint64_t max_bytes_;
  mutable std::mutex mutex_;
  std::map<std::string, std::list<claim*>> resting_; ///< by tenant, without empty lists
  tenant_bytes bytes_;
  std::atomic<std::uint64_t> num_evicted_{0};
};

} // namespace paceline::server
