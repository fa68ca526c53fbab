#pragma once

namespace boost::json {
class object;
} // namespace boost::json

namespace paceline::wire {

/// Fits the variables of a chat template (`template_variables`) to those of gpt-oss, which take what the
/// harmony format allows and no more: a message has one call, directly in front of its result; there is no
/// content that is null, and none beside a call and its thoughts; and every tool has a description.
void fit_to_harmony(boost::json::object& variables);

} // namespace paceline::wire
