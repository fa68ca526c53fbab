#pragma once

namespace boost::json {
class object;
} // namespace boost::json

namespace paceline::wire {

/// Changes the variables of a chat template (`template_variables`) so that Mistral's templates accept them.
/// These templates refuse call ids that are not nine letters or digits. Such an id is replaced by nine
/// characters of its hash. Equal ids stay equal, so a result still names its call, and the next prompt of a
/// conversation begins with the same text as the previous one (for the prefix cache).
void fit_to_mistral(boost::json::object& variables);

} // namespace paceline::wire
