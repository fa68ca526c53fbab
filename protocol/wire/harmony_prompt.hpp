#pragma once

namespace boost::json {
class object;
} // namespace boost::json

namespace paceline::wire {

/// Changes the variables of a chat template (`template_variables`) to what gpt-oss's templates accept. A
/// message has at most one call, and its result comes directly after it. Content that is null is removed. A
/// message with a call keeps its thoughts only if it has no content. Every tool has a description.
void fit_to_harmony(boost::json::object& variables);

} // namespace paceline::wire
