#pragma once

#include "runtime/tokenizer/chat_template/syntax/scope_names.hpp"

#include <initializer_list>
#include <set>
#include <string>

namespace paceline::tokenizer::jinja {

/// Adds to `names` the names that `body` reads and writes in its own scope; inner scopes are skipped.
void collect(const block& body, scope_names& names);
void collect(const expression& e, scope_names& names);
void collect_parameters(const target& where, scope_names& names);

/// The names of `wanted` that `body`, inner scopes included, reads before they are declared there.
std::set<std::string> undeclared_names(const block& body, std::initializer_list<const char*> wanted);

/// Line of an assignment to the name `loop` in a for-statement or inside it; nullopt if there is none.
std::optional<int> assignment_to_loop(const for_statement& node);

} // namespace paceline::tokenizer::jinja
