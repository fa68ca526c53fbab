#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/request.hpp"

#include <cstdint>

namespace paceline::sampling {

/// Checks all values of a request against a model. Called once, at the edge; later code relies on it. The
/// error names the field, its value and the rule: `errc::context_length_exceeded` for a prompt that does not
/// fit, otherwise `errc::invalid_argument`.
expected<void> validate(const generation_request& request, std::uint32_t vocab_size,
                        std::uint32_t context_length);

} // namespace paceline::sampling
