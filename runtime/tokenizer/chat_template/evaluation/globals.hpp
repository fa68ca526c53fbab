#pragma once

#include "runtime/tokenizer/chat_template/python/runtime.hpp"

#include <optional>
#include <string_view>

namespace paceline::tokenizer::jinja {

/// The functions every template sees, under a variable of the same name: range, dict, namespace, cycler,
/// joiner, and with `chat_functions` raise_exception and strftime_now. Nothing of the host is within reach of
/// them.
std::optional<value> find_global(runtime& rt, std::string_view name);

} // namespace paceline::tokenizer::jinja
