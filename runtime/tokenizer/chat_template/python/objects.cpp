#include "runtime/tokenizer/chat_template/python/objects.hpp"

#include "runtime/tokenizer/chat_template/python/operators.hpp"

#include <algorithm>

namespace paceline::tokenizer::jinja {

namespace {

/// Up to this size a scan is faster than an index.
constexpr std::size_t max_unindexed = 8;
constexpr std::size_t npos = static_cast<std::size_t>(-1);

} // namespace

std::string_view type_name(const value& v) noexcept {
  switch (v.type()) {
  case value_type::missing:
  case value_type::undefined:
    return "Undefined";
  case value_type::none:
    return "NoneType";
  case value_type::boolean:
    return "bool";
  case value_type::integer:
    return "int";
  case value_type::real:
    return "float";
  case value_type::string:
    return "str";
  case value_type::list:
    return "list";
  case value_type::tuple:
    return "tuple";
  case value_type::dict:
    return "dict";
  case value_type::dict_view:
    return "dict view";
  case value_type::range:
    return "range";
  case value_type::iterator:
    return "generator";
  case value_type::name_space:
    return "Namespace";
  case value_type::function:
    return "function";
  case value_type::method:
    return "builtin_function_or_method";
  case value_type::macro:
    return "Macro";
  case value_type::loop:
    return "LoopContext";
  case value_type::cycler:
    return "Cycler";
  case value_type::joiner:
    return "Joiner";
  case value_type::block:
    return "BlockReference";
  case value_type::template_reference:
    return "TemplateReference";
  }
  return "object";
}

std::size_t dict_object::position(runtime& rt, const value& key) const {
  if (entries_.size() > max_unindexed) {
    const auto [first, last] = index_.equal_range(hash_of(rt, key));
    const auto found = std::find_if(first, last, [&](const auto& slot) {
      return identical(rt, entries_[slot.second].first, key) || equal(rt, entries_[slot.second].first, key);
    });
    return found == last ? npos : found->second;
  }
  if (!key.is_string()) (void)hash_of(rt, key); // fails for types that a dict cannot look up
  for (std::size_t at = 0; at < entries_.size(); ++at)
    if (identical(rt, entries_[at].first, key) || equal(rt, entries_[at].first, key)) return at;
  return npos;
}

void dict_object::index_all(runtime& rt) {
  index_.clear();
  for (std::size_t at = 0; at < entries_.size(); ++at) index_.emplace(hash_of(rt, entries_[at].first), at);
}

const value* dict_object::find(runtime& rt, const value& key) const {
  const std::size_t at = position(rt, key);
  return at == npos ? nullptr : &entries_[at].second;
}

void dict_object::set(runtime& rt, const value& key, const value& item) {
  const std::size_t at = position(rt, key);
  if (at != npos) {
    entries_[at].second = item;
    return;
  }
  rt.memory.charge(3 * sizeof(entry)); // the entry, and its share of the index
  entries_.emplace_back(key, item);
  if (entries_.size() == max_unindexed + 1)
    index_all(rt);
  else if (entries_.size() > max_unindexed)
    index_.emplace(hash_of(rt, key), entries_.size() - 1);
}

bool dict_object::erase(runtime& rt, const value& key) {
  const std::size_t at = position(rt, key);
  if (at == npos) return false;
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(at));
  rt.memory.step(entries_.size() + 1);
  if (entries_.size() > max_unindexed) index_all(rt);
  return true;
}

void dict_object::clear() {
  entries_.clear();
  index_.clear();
}

} // namespace paceline::tokenizer::jinja
