#pragma once

#include "runtime/tokenizer/chat_template/syntax/ast.hpp"

namespace paceline::tokenizer::jinja {

/// Determines the variable of every name in a template, like jinja2's compiler. Scopes are loops, macros,
/// blocks and with-statements. A name is looked up among the template's variables when its scope is entered,
/// unless an outer scope declares it. An assignment is only visible in its scope. Throws `failure` for errors
/// that need this analysis: unknown filters and tests (those directly in an `if` fail only when they are
/// reached); loop controls (break, continue) outside of loops; assignments to `loop`.
void resolve_names(template_tree& tree);

} // namespace paceline::tokenizer::jinja
