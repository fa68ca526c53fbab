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

/// Bytes that wait for the clients of all connections together: output that is written and what the rest of
/// it is made from. When they are used up, a client of the tenant with most bytes gives way: the one that has
/// taken least of late. What waits for one client is not counted up to 16 KiB, so that a stream whose client
/// keeps up never asks. Thread-safe; no sockets, and the clock is given.
class output_budget : public std::enable_shared_from_this<output_budget> {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::size_t free_bytes = 16U << 10U;

  /// What waits for one client. Ends with its connection, which gives its bytes back.
  class claim {
   public:
    claim(std::shared_ptr<output_budget> budget, std::function<void()> give_way);
    ~claim();
    claim(const claim&) = delete;
    claim& operator=(const claim&) = delete;

    /// The client has said who it is; until then it belongs to the tenant without a name.
    void belong_to(const std::string& tenant);
    /// So many bytes wait now, after the client took `taken` more. On the connection's strand.
    void hold(std::size_t bytes, std::size_t taken = 0);

   private:
    friend class output_budget;
    const std::shared_ptr<output_budget> budget_;
    std::function<void()> give_way_;
    bool is_counted_ = false; ///< as the connection knows; the rest belongs to the budget
    std::string tenant_;
    std::list<claim*>::iterator position_; ///< while it is counted
    std::uint64_t charged_ = 0;
    recent_bytes recent_; ///< that the client took
    bool revoked_ = false;
  };

  output_budget(std::uint64_t max_bytes, std::function<time_point()> now)
      : max_bytes_(max_bytes), now_(std::move(now)) {}

  /// `give_way`: called at most once, on any thread, without a lock; what waits is to be freed soon.
  std::unique_ptr<claim> open(std::function<void()> give_way);

  std::uint64_t num_bytes() const;

 private:
  void charge(claim& one, std::uint64_t bytes, std::size_t taken);
  claim& victim(time_point now) const;
  void uncount(claim& one);

  const std::uint64_t max_bytes_;
  const std::function<time_point()> now_;
  mutable std::mutex mutex_;
  std::list<claim*> counted_; ///< those that hold more than is free
  tenant_bytes bytes_;
};

} // namespace paceline::server
