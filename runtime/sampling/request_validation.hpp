#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/request.hpp"

#include <cstdint>

namespace paceline::sampling {

/// Checks every range of a request against a model, once, at the edge: what is behind it relies on them. The
/// error names the field, its value and the rule. A prompt that does not fit has
/// `errc::context_length_exceeded`, all else `errc::invalid_argument`.
expected<void> validate(const generation_request& request, std::uint32_t vocab_size,
                        std::uint32_t context_length);

} // namespace paceline::sampling
