#pragma once

#include "runtime/tokenizer/chat_template/python/runtime.hpp"

#include <optional>
#include <string_view>

namespace paceline::tokenizer::jinja {

/// Returns the global function `name`: range, dict, namespace, cycler or joiner; with
/// `template_options::chat_functions` also raise_exception and strftime_now. nullopt for other names. These
/// functions give no access to files, the network or the process.
std::optional<value> find_global(runtime& rt, std::string_view name);

} // namespace paceline::tokenizer::jinja
