#pragma once

namespace boost::json {
class object;
} // namespace boost::json

namespace paceline::wire {

/// Changes the variables of a chat template (`template_variables`) so that gpt-oss's templates accept them.
/// Afterwards each message has at most one call, and the call's result, if there is one, is the next message.
/// Content that is null is removed. `thinking` is removed from messages with both a call and content. Every
/// tool has a description.
void fit_to_harmony(boost::json::object& variables);

} // namespace paceline::wire
