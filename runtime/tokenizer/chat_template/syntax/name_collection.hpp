#pragma once

#include "runtime/tokenizer/chat_template/syntax/scope_names.hpp"

#include <initializer_list>
#include <set>
#include <string>

namespace paceline::tokenizer::jinja {

/// Enters into `names` what `body` reads and writes in its own scope; inner scopes are passed over.
void collect(const block& body, scope_names& names);
void collect(const expression& e, scope_names& names);
void collect_parameters(const target& where, scope_names& names);

/// Which of `wanted` are read anywhere in `body`, inner scopes included, before something there declares
/// them.
std::set<std::string> undeclared_names(const block& body, std::initializer_list<const char*> wanted);

/// The line of an assignment to the name `loop` in a for-statement or anywhere inside it.
std::optional<int> assignment_to_loop(const for_statement& node);

} // namespace paceline::tokenizer::jinja
