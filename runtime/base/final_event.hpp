#pragma once

#include "runtime/base/token_event.hpp"

#include <optional>
#include <utility>

namespace paceline {

/// A final event without tokens: the request was refused, cancelled, expired or failed.
inline token_event final_event(request_id request, finish_reason reason,
                               std::optional<error> failure = std::nullopt) {
  token_event event;
  event.request = request;
  event.finish = reason;
  event.failure = std::move(failure);
  return event;
}

} // namespace paceline
