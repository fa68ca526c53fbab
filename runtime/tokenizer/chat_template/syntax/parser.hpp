#pragma once

#include "runtime/tokenizer/chat_template/options.hpp"
#include "runtime/tokenizer/chat_template/syntax/ast.hpp"

#include <string_view>

namespace paceline::tokenizer::jinja {

/// Parses a template and resolves its names. Throws `failure` with the line of the first mistake.
template_tree parse_template(std::string_view source, const template_options& options);

} // namespace paceline::tokenizer::jinja
