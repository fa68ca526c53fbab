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

/// Bytes that are kept for clients that may come back, of all of them together: conversations that WebSockets
/// may continue and logs of resumable responses. When they are used up, what the tenant with most bytes used
/// longest ago goes. Thread-safe.
///
/// Invariant: `resting_` holds the claims that may go, of each tenant the longest rested first; each is open.
class kept_memory : public std::enable_shared_from_this<kept_memory> {
 public:
  static constexpr auto no_bound = std::numeric_limits<std::uint64_t>::max();

  /// One thing that is kept. Ends with its owner, which gives its bytes back.
  class claim {
   public:
    claim(std::shared_ptr<kept_memory> memory, std::string tenant, std::function<void()> evict);
    ~claim();
    claim(const claim&) = delete;
    claim& operator=(const claim&) = delete;

    /// It has `bytes` now. Evicts nothing yet: see `make_room`.
    void resize(std::size_t bytes);
    /// Nobody uses it: it may go, after those that rest already.
    void rest();
    /// Somebody uses it: it stays. False if it had to go.
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
    std::list<claim*>::iterator position_; ///< while it rests
  };

  explicit kept_memory(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  /// Something in use. `evict` frees what it holds: called at most once, on any thread, without a lock.
  std::shared_ptr<claim> open(std::string tenant, std::function<void()> evict);
  /// Evicts what rests until the rest fits. False if what is in use alone does not. To be called without a
  /// lock.
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
