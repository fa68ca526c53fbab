#include "runtime/scheduling/admitted_request.hpp"

#include "runtime/scheduling/request_terms.hpp"

namespace paceline::scheduling {

request_id admitted_request::id() const noexcept { return terms->id(); }

} // namespace paceline::scheduling
