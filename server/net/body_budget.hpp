#pragma once

#include "server/http/request_body.hpp"
#include "server/net/recent_bytes.hpp"
#include "server/tenant_bytes.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

namespace paceline::server {

/// Limits the memory of the request bodies and WebSocket messages of all connections, from their arrival
/// until the values parsed from them are no longer needed. When a growing body makes the total exceed the
/// budget, bodies give way until the rest fits: their memory is taken back, and their requests fail. The
/// budget chooses them in this order:
/// - Tenants that hold more bytes than the growing body's tenant come first, the largest first. Of such a
///   tenant, the incomplete body that has recently arrived most slowly gives way. If it has no incomplete
///   body, the newest of its complete bodies that still wait to be parsed gives way.
/// - If no such tenant has a body that can give way, the slowest incomplete body of the growing body's own
///   tenant gives way. It may be the growing body itself.
///
/// So no tenant can lock out another. The first 64 KiB of a body are not counted, so that a small request
/// always has room; their memory is limited by the number of connections. Thread-safe. Uses no sockets; the
/// clock is injected.
class body_budget : public std::enable_shared_from_this<body_budget> {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::size_t free_bytes = 64U << 10U;

  /// The claim of one body. Its bytes are returned to the budget when the last owner destroys it.
  class claim final : public body_place {
   public:
    claim(std::shared_ptr<body_budget> budget, std::string tenant, std::function<void()> give_way);
    ~claim() override;
    claim(const claim&) = delete;
    claim& operator=(const claim&) = delete;

    /// Sets the size of the body to `bytes`. False if the body has to give way, or had to before.
    [[nodiscard]] bool hold(std::size_t bytes);
    /// The body is complete: from now on it gives way only to bodies of other tenants. False if it had to
    /// give way before.
    [[nodiscard]] bool complete();
    [[nodiscard]] bool begin_use() override;
    bool revoked() const noexcept { return revoked_; }

   private:
    friend class body_budget;
    enum class stage : std::uint8_t { arriving, waiting, in_use };
    std::shared_ptr<body_budget> budget_;
    const std::string tenant_;
    std::function<void()> give_way_;
    std::list<claim*>::iterator position_;
    std::size_t held_ = 0;
    std::uint64_t charged_ = 0;
    recent_bytes recent_;
    stage stage_ = stage::arriving;
    std::atomic<bool> revoked_{false};
  };

  body_budget(std::uint64_t max_bytes, std::function<time_point()> now)
      : max_bytes_(max_bytes), now_(std::move(now)) {}

  /// `give_way` is called at most once, on any thread, while no lock of the budget is held, if the body has
  /// to give way to another one. It should free the body's memory soon.
  std::shared_ptr<claim> open(std::string tenant, std::function<void()> give_way);

  /// Bytes that the budget counts at the moment, of all bodies together.
  std::uint64_t num_bytes() const;
  /// Number of bodies that had to give way.
  std::uint64_t num_revoked() const noexcept { return num_revoked_.load(std::memory_order_relaxed); }

 private:
  bool hold(claim& one, std::size_t bytes);
  /// The body that gives way when `one` grows; may be `one` itself.
  claim& victim_of(claim& one, time_point now) const;
  /// The incomplete body of `tenant` that arrives most slowly; null if it has none.
  claim* slowest(const std::string& tenant, time_point now) const;
  claim* last_waiting(const std::string& tenant) const;
  void charge(claim& one, std::uint64_t bytes);
  void revoke(claim& one);

  const std::uint64_t max_bytes_;
  const std::function<time_point()> now_;
  mutable std::mutex mutex_;
  std::list<claim*> claims_; ///< oldest first
  tenant_bytes bytes_;
  std::atomic<std::uint64_t> num_revoked_{0};
};

} // namespace paceline::server
