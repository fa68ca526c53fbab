#pragma once

#include "protocol/wire/api_error.hpp"
#include "protocol/wire/chat_prompt.hpp"
#include "protocol/wire/generation_fields.hpp"
#include "protocol/wire/output/output_format.hpp"
#include "server/backend.hpp"

#include <memory>
#include <optional>
#include <string>

namespace paceline::server {

/// The call that a chat or response demands, and the tools that may be called.
struct asked_call {
  const wire::tool_demand& demand;
  const std::string& tools; ///< JSON, as `read_tools` keeps it
};

/// The constraint of a request's output, compiled for the model; null if the request has none. If tools are
/// offered beside a constraint, the output is one call or matches the constraint. The thoughts of a model are
/// not constrained in three cases: both markers of thoughts are single tokens; the prompt has opened the
/// thoughts; the output has the harmony format (gpt-oss). Otherwise the whole output is constrained. `plan`
/// says whether the prompt has opened thoughts, and whether tools are offered. `call` is null for a
/// completion, whose whole output is constrained. Takes milliseconds to seconds, so it runs on threads of
/// edge_pool.
wire::parsed<std::shared_ptr<const token_constraint>> constrain_answer(const model_view& model,
                                                                       const wire::generation_fields& fields,
                                                                       const wire::output_plan& plan,
                                                                       const asked_call* call);

/// The token of a marker that is a single token; nullopt if the marker consists of several tokens.
std::optional<token_id> token_of(const model_view& model, const std::string& marker);

} // namespace paceline::server
