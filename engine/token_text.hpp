#pragma once

#include "runtime/base/request.hpp"
#include "runtime/scheduling/sequence.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <memory>

namespace paceline {

/// The text of one generation: the vocabulary's stream of characters with the request's stop strings.
std::unique_ptr<scheduling::text_output> make_token_text(const tokenizer::tokenizer& vocabulary,
                                                         const generation_request& request);

} // namespace paceline
