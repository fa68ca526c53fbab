#pragma once

#include "runtime/base/request.hpp"
#include "runtime/rounds/text_output.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <memory>

namespace paceline {

/// Converts the tokens of one generation to text, and stops at the request's stop strings.
std::unique_ptr<rounds::text_output> make_token_text(const tokenizer::tokenizer& vocabulary,
                                                     const generation_request& request);

} // namespace paceline
