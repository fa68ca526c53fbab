#pragma once

#include "config/engine_options.hpp"

#include <vector>

namespace paceline::config {

/// What a model drafts with: the drafters it lists, or, if it lists none, `ngram` and `suffix`, which need no
/// model of their own and which drafter `auto` leaves unused where they do not pay. In both cases also
/// `prediction`, for requests that bring a draft, unless one is listed or its name is taken.
std::vector<drafter_options> drafters_of(const model_options& model);

} // namespace paceline::config
