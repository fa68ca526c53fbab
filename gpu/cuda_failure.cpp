#include "gpu/cuda_failure.hpp"

namespace paceline::gpu {
namespace {

errc code_of(failure_kind kind) {
  switch (kind) {
  case failure_kind::out_of_memory:
    return errc::resource_exhausted;
  case failure_kind::device_lost:
    return errc::device_lost;
  case failure_kind::other:
    break;
  }
  return errc::internal;
}

/// The path relative to the sources' root.
std::string_view short_path(std::string_view path) {
  const auto at = path.rfind("gpu/");
  return at == std::string_view::npos ? path : path.substr(at);
}

} // namespace

error device_context::error_of(status failure, std::string_view call, std::source_location place) const {
  return {code_of(api.kind_of(failure)), name + ": " + std::string(call) + ": " + api.describe(failure) +
                                             ", at " + std::string(short_path(place.file_name())) + ":" +
                                             std::to_string(place.line())};
}

void device_context::require(status outcome, std::string_view call, std::source_location place) const {
  if (outcome != 0) throw cuda_failure(error_of(outcome, call, place));
}

} // namespace paceline::gpu
