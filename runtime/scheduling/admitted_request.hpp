#pragma once

#include "runtime/base/ids.hpp"

#include <memory>

namespace paceline::rounds {
class request_progress;
}

namespace paceline::scheduling {

class committed_log;
class request_terms;

/// A request that is served, in three parts by who may touch them. Copies name the same request; made by
/// `rounds::admit`.
struct admitted_request {
  std::shared_ptr<const request_terms> terms;         ///< anybody, at any time
  std::shared_ptr<const committed_log> log;           ///< read behind fences
  std::shared_ptr<rounds::request_progress> progress; ///< verify programs only: others do not see its type

  request_id id() const noexcept;
};

} // namespace paceline::scheduling
