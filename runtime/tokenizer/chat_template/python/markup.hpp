#pragma once

#include "runtime/tokenizer/chat_template/python/runtime.hpp"

#include <string>

namespace paceline::tokenizer::jinja {

/// markupsafe's escape(): markup as it is, everything else with & < > ' " replaced.
std::string escaped(runtime& rt, const value& v);

} // namespace paceline::tokenizer::jinja
