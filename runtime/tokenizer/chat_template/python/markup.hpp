#pragma once

#include "runtime/tokenizer/chat_template/python/runtime.hpp"

#include <string>

namespace paceline::tokenizer::jinja {

/// markupsafe's escape(): leaves markup unchanged and replaces & < > ' " in everything else.
std::string escaped(runtime& rt, const value& v);

} // namespace paceline::tokenizer::jinja
