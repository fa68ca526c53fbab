#pragma once

#include "runtime/tokenizer/chat_template/python/runtime.hpp"

#include <optional>
#include <string_view>

namespace paceline::tokenizer::jinja {

/// The functions that every template can call, by the name of their variable: range, dict, namespace, cycler,
/// joiner, and with `chat_functions` raise_exception and strftime_now. They give no access to the host.
std::optional<value> find_global(runtime& rt, std::string_view name);

} // namespace paceline::tokenizer::jinja
