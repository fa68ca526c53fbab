#pragma once

#include "runtime/tokenizer/chat_template/python/runtime.hpp"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

namespace paceline::tokenizer::jinja {

/// The Python value that json.loads gives for `json`. Strings are not copied: `json` must outlive the
/// rendering.
/// The variables' memory is not charged to the template's budget.
value value_of(runtime& rt, const boost::json::value& json);
value value_of(runtime& rt, const boost::json::object& json);

} // namespace paceline::tokenizer::jinja
