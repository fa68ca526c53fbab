#pragma once

#include "server/net/recent_bytes.hpp"
#include "server/tenant_bytes.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

namespace paceline::server {

/// Limits the memory of output that waits for the clients of all connections: unsent bytes, and data from
/// which further output is generated. When the budget is used up, connections are closed one by one until
/// the remaining output fits. Each step chooses the tenant that holds the most bytes, and closes the
/// connection of the tenant's client that has recently read least. A client with at most 16 KiB of waiting
/// output is not counted, so a stream whose client reads fast enough never needs the budget. Thread-safe.
/// Uses no sockets; the clock is injected.
class output_budget : public std::enable_shared_from_this<output_budget> {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::size_t free_bytes = 16U << 10U; ///< a client with more than this is counted in full

  /// The claim of one client's waiting output. Its bytes are returned to the budget when the connection ends.
  class claim {
   public:
    claim(std::shared_ptr<output_budget> budget, std::function<void()> give_way);
    ~claim();
    claim(const claim&) = delete;
    claim& operator=(const claim&) = delete;

    /// The client was identified as `tenant`. Before that, its output counts for the tenant with the empty
    /// name.
    void belong_to(const std::string& tenant);
    /// Sets the number of waiting bytes. `taken`: bytes that the client has read since the last call. Called
    /// on the connection's strand.
    void hold(std::size_t bytes, std::size_t taken = 0);

   private:
    friend class output_budget;
    const std::shared_ptr<output_budget> budget_;
    std::function<void()> give_way_;
    /// Used on the connection's strand; the members below are guarded by the budget's lock.
    bool is_counted_ = false;
    std::string tenant_;
    std::list<claim*>::iterator position_; ///< valid while the claim is counted
    std::uint64_t charged_ = 0;
    recent_bytes recent_; ///< bytes that the client has read
    bool revoked_ = false;
  };

  output_budget(std::uint64_t max_bytes, std::function<time_point()> now)
      : max_bytes_(max_bytes), now_(std::move(now)) {}

  /// `give_way` is called at most once, on any thread, while no lock of the budget is held, if the client's
  /// connection must be closed. It should free the waiting output soon.
  std::unique_ptr<claim> open(std::function<void()> give_way);

  /// Bytes that the budget counts at the moment, of all clients together.
  std::uint64_t num_bytes() const;

 private:
  void charge(claim& one, std::uint64_t bytes, std::size_t taken);
  claim& victim(time_point now) const;
  void uncount(claim& one);

  const std::uint64_t max_bytes_;
  const std::function<time_point()> now_;
  mutable std::mutex mutex_;
  std::list<claim*> counted_; ///< claims that hold more than `free_bytes`
  tenant_bytes bytes_;
};

} // namespace paceline::server
