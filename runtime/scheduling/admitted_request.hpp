#pragma once

#include "runtime/base/ids.hpp"

#include <memory>

namespace paceline::rounds {
class request_progress;
}

namespace paceline::scheduling {

class committed_log;
class request_terms;

/// An admitted request in three parts, divided by who may access them. Copies refer to the same request.
/// Created by `rounds::admit`.
struct admitted_request {
  std::shared_ptr<const request_terms> terms; ///< readable by anybody at any time
  std::shared_ptr<const committed_log> log;   ///< see `committed_log` for who may read it, and when
  /// For verify programs only. Code outside `runtime/rounds` does not see its type.
  std::shared_ptr<rounds::request_progress> progress;

  request_id id() const noexcept;
};

} // namespace paceline::scheduling
