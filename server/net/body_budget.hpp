#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

namespace paceline::server {

/// Bytes of request bodies and WebSocket messages that all connections together may hold, from their arrival
/// until they are parsed. When they are used up, the unfinished body that has arrived most slowly of late
/// gives way. The first 64 KiB of a body are not counted, so that a small request always finds room; the
/// number of connections bounds those. Thread-safe; no sockets, and the clock is given.
class body_budget : public std::enable_shared_from_this<body_budget> {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::size_t free_bytes = 64U << 10U;

  /// One body. Ends with its last owner, which gives its bytes back.
  class claim {
   public:
    claim(std::shared_ptr<body_budget> budget, std::function<void()> give_way);
    ~claim();
    claim(const claim&) = delete;
    claim& operator=(const claim&) = delete;

    /// The body has `bytes` now. False if it has to give way itself, or had to already.
    [[nodiscard]] bool hold(std::size_t bytes);
    /// The body is whole: it gives way no more. False if it had to already.
    [[nodiscard]] bool complete();
    bool revoked() const noexcept { return revoked_; }

   private:
    friend class body_budget;
    std::shared_ptr<body_budget> budget_;
    std::function<void()> give_way_;
    std::list<claim*>::iterator position_;
    std::size_t held_ = 0;
    std::uint64_t charged_ = 0;
    double recent_bytes_; ///< fades by half each second
    time_point updated_;
    bool unfinished_ = true;
    std::atomic<bool> revoked_{false};
  };

  body_budget(std::uint64_t max_bytes, std::function<time_point()> now)
      : max_bytes_(max_bytes), now_(std::move(now)) {}

  /// `give_way`: called at most once, on any thread, without a lock; the body's memory is to be freed soon.
  std::shared_ptr<claim> open(std::function<void()> give_way);

  std::uint64_t num_bytes() const;
  /// Bodies that had to give way.
  std::uint64_t num_revoked() const noexcept { return num_revoked_.load(std::memory_order_relaxed); }

 private:
  bool hold(claim& one, std::size_t bytes);
  claim* slowest(time_point now) const;
  static double pace(const claim& one, time_point now);
  void revoke(claim& one);

  const std::uint64_t max_bytes_;
  const std::function<time_point()> now_;
  mutable std::mutex mutex_;
  std::list<claim*> claims_; ///< oldest first
  std::uint64_t num_bytes_ = 0;
  std::atomic<std::uint64_t> num_revoked_{0};
};

} // namespace paceline::server
