#pragma once

#include "protocol/wire/api_error.hpp"
#include "protocol/wire/chat_prompt.hpp"
#include "protocol/wire/generation_fields.hpp"
#include "protocol/wire/output/output_format.hpp"
#include "server/backend.hpp"

#include <memory>
#include <string>

namespace paceline::server {

/// The call that a chat or response asks for, and the tools from which it may be.
struct asked_call {
  const wire::tool_demand& demand;
  const std::string& tools; ///< JSON, as `read_tools` keeps it
};

/// What the output of a request must match, compiled for the model; null if the request asks for nothing.
/// Where tools are offered beside a constraint, the output is one call or matches the constraint. The answer
/// of a model that thinks first is constrained behind its thoughts; `plan` says whether the prompt has opened
/// them, and whether tools were offered. `call`: null for a completion, which has neither. Takes milliseconds
/// to seconds, so it runs on edge threads.
wire::parsed<std::shared_ptr<const token_constraint>> constrain_answer(const model_view& model,
                                                                       const wire::generation_fields& fields,
                                                                       const wire::output_plan& plan,
                                                                       const asked_call* call);

} // namespace paceline::server
