#pragma once

#include "server/http/request_body.hpp"
#include "server/net/body_budget.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace paceline::server {

/// A body or message while it arrives. Above `body_budget::free_bytes` it has memory pages of its own, which
/// are allocated as they are filled, and returned to the system as soon as the body is freed. On the heap,
/// bodies of varying sizes would cause fragmentation to several times the memory that the budget counts. Uses
/// no sockets.
class inbound_body {
 public:
  /// A body of `tenant` with at most `max_bytes`. `give_way` is called if the budget takes back this body's
  /// memory for another body (body_budget).
  inbound_body(std::shared_ptr<body_budget> budget, std::string tenant, std::size_t max_bytes,
               std::function<void()> give_way)
      : budget_(std::move(budget)), tenant_(std::move(tenant)), max_bytes_(max_bytes),
        give_way_(std::move(give_way)) {}

  /// Appends at most `missing()` bytes. False if the budget has no room for them or the system no memory: the
  /// body must then be refused and dropped.
  [[nodiscard]] bool append(std::string_view bytes);
  /// Moves the first `missing()` bytes of `bytes`, or all if there are fewer, to the body. False as in
  /// `append`.
  [[nodiscard]] bool fill_from(std::string_view& bytes) {
    const auto share = bytes.substr(0, missing());
    bytes.remove_prefix(share.size());
    return share.empty() || append(share);
  }
  std::size_t size() const noexcept { return size_; }
  /// Bytes until the body has its maximum size.
  std::size_t missing() const noexcept { return max_bytes_ - size_; }
  /// True if the budget has taken back the body's memory.
  bool has_to_give_way() const noexcept;
  /// Moves the complete body into `whole`. False if the budget has taken back its memory.
  [[nodiscard]] bool take(request_body& whole);

 private:
  struct pages;

  std::shared_ptr<body_budget> budget_;
  std::string tenant_;
  std::size_t max_bytes_;
  std::function<void()> give_way_;
  std::size_t size_ = 0;
  std::string small_;            ///< the whole body, up to body_budget::free_bytes
  std::shared_ptr<pages> large_; ///< the whole body, beyond that
};

} // namespace paceline::server
