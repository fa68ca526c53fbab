#pragma once

#include "server/http/request_body.hpp"
#include "server/net/body_budget.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace paceline::server {

/// A body or message while it arrives. A large one lies in pages of its own, which cost memory as they are
/// filled and go back to the system at once: through the heap, bodies of many sizes that come and go would
/// keep several times what the budget counts. No sockets.
class inbound_body {
 public:
  /// Of `tenant`; at most `max_bytes` arrive. `give_way`: see body_budget.
  inbound_body(std::shared_ptr<body_budget> budget, std::string tenant, std::size_t max_bytes,
               std::function<void()> give_way)
      : budget_(std::move(budget)), tenant_(std::move(tenant)), max_bytes_(max_bytes),
        give_way_(std::move(give_way)) {}

  /// False if there is no room for it any more: it is to be refused and forgotten.
  [[nodiscard]] bool append(std::string_view bytes);
  /// The same with as much of `bytes` as is missing, which it takes off them.
  [[nodiscard]] bool fill_from(std::string_view& bytes) {
    const auto share = bytes.substr(0, missing());
    bytes.remove_prefix(share.size());
    return share.empty() || append(share);
  }
  std::size_t size() const noexcept { return size_; }
  std::size_t missing() const noexcept { return max_bytes_ - size_; }
  /// The budget wants its bytes back.
  bool has_to_give_way() const noexcept;
  /// The whole of it. None if it had to give way just before.
  [[nodiscard]] bool take(request_body& whole);

 private:
  struct pages;

  std::shared_ptr<body_budget> budget_;
  std::string tenant_;
  std::size_t max_bytes_;
  std::function<void()> give_way_;
  std::size_t size_ = 0;
  std::string small_;            ///< all of it, up to body_budget::free_bytes
  std::shared_ptr<pages> large_; ///< all of it, beyond
};

} // namespace paceline::server
