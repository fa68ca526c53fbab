#pragma once

#include "server/http/chunk_decoder.hpp"
#include "server/http/request_head.hpp"
#include "server/net/inbound_body.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::server {

/// How long a body may take to arrive: `first` plus its bytes divided by the rate, at most `most`.
struct body_pace {
  std::chrono::milliseconds first; ///< allowed for any body
  std::chrono::milliseconds most;
  std::uint64_t min_bytes_per_second = 1024;
};

/// The body of a request while it arrives, either with the Content-Length of its head or chunked. Uses no
/// sockets; times are arguments.
class body_intake {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  enum class state { arriving, complete, gives_way, refused };

  /// `head` was admitted, so its Content-Length is at most `max_bytes`. For `budget`, `tenant` and `give_way`
  /// see inbound_body.
  body_intake(const request_head& head, std::uint64_t max_bytes, const body_pace& pace, time_point begin,
              std::shared_ptr<body_budget> budget, std::string tenant, std::function<void()> give_way);

  /// Removes the bytes of this body from the front of `bytes`. `gives_way`: the budget has no room for them;
  /// `refused`: the chunks are malformed or too long, see `refusal`.
  [[nodiscard]] state take(std::string_view& bytes);

  /// Time until the body must be complete. For a chunked body, whose length is unknown, the allowed time
  /// grows with every byte.
  std::chrono::milliseconds time_left(time_point now) const;
  /// Why the body was refused. Only after `take` has returned `refused`.
  const wire::api_error& refusal() const { return *decoder_->refusal(); }
  bool has_to_give_way() const noexcept { return body_.has_to_give_way(); }
  /// Moves the complete body into `whole`. False if it had to give way just before.
  [[nodiscard]] bool finish(request_body& whole) { return body_.take(whole); }

 private:
  state take_chunks(std::string_view& bytes);

  const body_pace pace_;
  const time_point begin_;
  inbound_body body_;
  std::optional<chunk_decoder> decoder_; ///< if the body is chunked
};

} // namespace paceline::server
