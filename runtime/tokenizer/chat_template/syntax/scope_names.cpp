#include "runtime/tokenizer/chat_template/syntax/scope_names.hpp"

namespace paceline::tokenizer::jinja {

std::optional<binding> scope_names::find(const std::string& name) const {
  for (const scope_names* scope = this; scope != nullptr; scope = scope->parent_) {
    const auto found = scope->references_.find(name);
    if (found != scope->references_.end()) return found->second;
  }
  return std::nullopt;
}

int scope_names::define(const std::string& name, std::optional<load_record> record) {
  const int slot = function_->slot_of(level_, name);
  references_[name] = binding{function_, slot};
  loads_[name] = record;
  return slot;
}

int scope_names::declare_parameter(const std::string& name) {
  stores_.insert(name);
  return define(name, std::nullopt);
}

void scope_names::store(const std::string& name) {
  stores_.insert(name);
  if (references_.contains(name)) return;
  const auto outer = parent_ == nullptr ? std::nullopt : parent_->find(name);
  if (outer)
    define(name, load_record{load_action::alias, *outer});
  else
    define(name, load_record{load_action::undefined, {}});
}

void scope_names::load(const std::string& name) {
  if (!find(name)) define(name, load_record{load_action::resolve, {}});
}

void scope_names::merge_branches(std::initializer_list<const scope_names*> branches) {
  std::set<std::string> newly_stored;
  for (const scope_names* branch : branches)
    for (const std::string& name : branch->stores_)
      if (!stores_.contains(name)) newly_stored.insert(name);
  for (const scope_names* branch : branches) {
    for (const auto& [name, bound] : branch->references_) references_[name] = bound;
    for (const auto& [name, record] : branch->loads_) loads_[name] = record;
    stores_.insert(branch->stores_.begin(), branch->stores_.end());
  }
  // These names are assigned on some paths only. On the other paths a name keeps its previous meaning.
  for (const std::string& name : newly_stored) {
    const auto outer = parent_ == nullptr ? std::nullopt : parent_->find(name);
    loads_[name] = outer ? load_record{load_action::alias, *outer} : load_record{load_action::resolve, {}};
  }
}

scope_entry scope_names::entry() const {
  scope_entry made;
  for (const auto& [name, record] : loads_) {
    const int slot = references_.at(name).slot;
    made.owned_slots.push_back(slot);
    if (!record) continue;
    const bool alias = record->action == load_action::alias;
    made.loads.push_back(
        {slot, record->action, name, alias ? seen_from(*function_, record->source) : variable{}});
  }
  return made;
}

std::vector<std::pair<std::string, variable>> scope_names::stored_names() const {
  std::set<std::string> names;
  for (const scope_names* scope = this; scope != nullptr; scope = scope->parent_)
    names.insert(scope->stores_.begin(), scope->stores_.end());
  std::vector<std::pair<std::string, variable>> seen;
  for (const std::string& name : names)
    if (const auto bound = find(name)) seen.emplace_back(name, seen_from(*function_, *bound));
  return seen;
}

} // namespace paceline::tokenizer::jinja
