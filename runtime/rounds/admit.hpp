#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/request.hpp"
#include "runtime/rounds/text_output.hpp"
#include "runtime/scheduling/admitted_request.hpp"

#include <cstdint>
#include <memory>

namespace paceline::rounds {

/// Creates the `admitted_request` of a request: its terms, its committed log and its progress. The scheduler
/// admits it later. `context_length`: positions that the target and the pool can hold.
/// `text` may be null (no text wanted). `most`: the strongest guarantee that the target can give. Throws
/// check_failure unless the prompt has 1 to `context_length` tokens.
scheduling::admitted_request admit(request_id id, generation_request request, std::uint32_t context_length,
                                   std::unique_ptr<text_output> text, time_point submitted,
                                   guarantee most = guarantee::tokens);

} // namespace paceline::rounds
