#pragma once

#include "protocol/wire/api_error.hpp"
#include "protocol/wire/generation_fields.hpp"
#include "protocol/wire/output/output_format.hpp"
#include "server/backend.hpp"

#include <memory>

namespace paceline::server {

/// What the output of a request must match, compiled for the model; null if the request names nothing. The
/// answer of a model that thinks first is constrained behind its thoughts, if it is a chat's. `plan` says
/// whether the prompt has opened them, and whether tools were offered. Takes milliseconds to seconds, so it
/// runs on edge threads.
wire::parsed<std::shared_ptr<const token_constraint>> constrain_answer(const model_view& model,
                                                                       const wire::generation_fields& fields,
                                                                       const wire::output_plan& plan,
                                                                       bool chat);

} // namespace paceline::server
