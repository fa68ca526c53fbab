#include "runtime/base/error.hpp"

namespace paceline {

std::string_view to_string(errc code) noexcept {
  switch (code) {
  case errc::invalid_argument:
    return "invalid_argument";
  case errc::invalid_file:
    return "invalid_file";
  case errc::unsupported:
    return "unsupported";
  case errc::not_found:
    return "not_found";
  case errc::context_length_exceeded:
    return "context_length_exceeded";
  case errc::queue_full:
    return "queue_full";
  case errc::pool_full:
    return "pool_full";
  case errc::cancelled:
    return "cancelled";
  case errc::deadline_exceeded:
    return "deadline_exceeded";
  case errc::stale:
    return "stale";
  case errc::draining:
    return "draining";
  case errc::device_lost:
    return "device_lost";
  case errc::resource_exhausted:
    return "resource_exhausted";
  case errc::internal:
    return "internal";
  case errc::out_of_service:
    return "out_of_service";
  case errc::state_slots_full:
    return "state_slots_full";
  }
  return "unknown";
}

error error::within(std::string_view where) && {
  message_.insert(0, ": ");
  message_.insert(0, where);
  return std::move(*this);
}

} // namespace paceline
