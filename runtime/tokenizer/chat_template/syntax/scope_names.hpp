#pragma once

#include "runtime/tokenizer/chat_template/syntax/ast.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace paceline::tokenizer::jinja {

/// A function of the template during name resolution. Scopes of the same nesting level share the slot of a
/// name.
struct function_scope {
  int depth = 0; ///< number of enclosing functions
  std::map<std::pair<int, std::string>, int> slots;

  int slot_of(int level, const std::string& name) {
    return slots.emplace(std::pair(level, name), static_cast<int>(slots.size())).first->second;
  }
};

struct binding {
  const function_scope* function = nullptr;
  int slot = -1;
};

/// The names that one scope reads and writes.
class scope_names {
 public:
  scope_names(const scope_names* parent, function_scope& function)
      : parent_(parent), function_(&function), level_(parent == nullptr ? 0 : parent->level_ + 1) {}

  std::optional<binding> find(const std::string& name) const;
  function_scope& function() const { return *function_; }

  int declare_parameter(const std::string& name);
  void store(const std::string& name);
  void load(const std::string& name);
  /// After an `if`: merges the effects of its branches, each of which started with a copy of this object.
  void merge_branches(std::initializer_list<const scope_names*> branches);

  /// The changes of slots when the scope is entered.
  scope_entry entry() const;
  /// The variable of a name for code that runs in `from`.
  static variable seen_from(const function_scope& from, const binding& bound) {
    return {from.depth - bound.function->depth, bound.slot};
  }
  /// Every name stored in this scope or an enclosing one, with its variable for code in this scope.
  std::vector<std::pair<std::string, variable>> stored_names() const;

 private:
  struct load_record {
    load_action action = load_action::undefined;
    binding source;
  };

  int define(const std::string& name, std::optional<load_record> record);

  const scope_names* parent_;
  function_scope* function_;
  int level_;
  std::map<std::string, binding> references_;
  std::map<std::string, std::optional<load_record>> loads_; ///< nullopt: a parameter, set by the caller
  std::set<std::string> stores_;
};

} // namespace paceline::tokenizer::jinja
