#pragma once

#include "runtime/tokenizer/chat_template/syntax/ast.hpp"

namespace paceline::tokenizer::jinja {

/// Decides for every name of a template which variable it means, as jinja2's compiler does: scopes are loops,
/// macros, blocks and with-statements; a name is looked up among the template's variables when its scope is
/// entered, unless an outer scope knows it; what a scope assigns stays in it. Also refuses what only shows
/// here: unknown filters outside of conditions, loop controls outside of loops, assignments to `loop`.
void resolve_names(template_tree& tree);

} // namespace paceline::tokenizer::jinja
