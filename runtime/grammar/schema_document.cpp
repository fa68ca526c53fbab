#include "runtime/grammar/schema_document.hpp"

#include "runtime/grammar/schema_types.hpp"

#include <boost/json/parse.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/url.hpp>
#include <boost/url/url_view.hpp>

#include <algorithm>
#include <charconv>
#include <utility>

namespace paceline::grammar {

namespace {

namespace json = boost::json;

constexpr std::size_t max_size_of_copies = 50'000; // values, and more for long texts
constexpr std::size_t max_scope_entries = 20'000;  // in all scopes together
constexpr std::size_t max_uri_bytes = 2'048;
/// The base of a document without "$id" at its root.
constexpr std::string_view default_uri = "schema:///root";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned value = 0;
    const bool is_code =
        text[at] == '%' && at + 2 < text.size() &&
        std::from_chars(text.data() + at + 1, text.data() + at + 3, value, 16).ptr == text.data() + at + 3;
    out += is_code ? static_cast<char>(value) : text[at];
    if (is_code) at += 2;
  }
  return out;
}

/// The member or element of `value` that one step of a JSON pointer names; nullptr if there is none.
schema_ptr child(schema_ptr value, const std::string& step) {
  if (const auto* object = value->if_object()) return object->if_contains(step);
  const auto* array = value->if_array();
  std::size_t index = 0;
  const char* end = step.data() + step.size();
  if (array == nullptr || std::from_chars(step.data(), end, index).ptr != end || index >= array->size())
    return nullptr;
  return &(*array)[index];
}

/// A reference without its fragment, resolved relative to `base`. A text that is no URI is returned
/// unchanged.
std::string resolved(const std::string& base, std::string_view reference) {
  if (base.size() + reference.size() > max_uri_bytes) return std::string(reference);
  const auto base_url = boost::urls::parse_uri(base);
  const auto relative = boost::urls::parse_uri_reference(reference);
  boost::urls::url out;
  if (!base_url || !relative || !boost::urls::resolve(*base_url, *relative, out))
    return std::string(reference);
  out.normalize();
  return out.buffer();
}

std::string_view without_fragment(std::string_view reference) {
  return reference.substr(0, reference.find('#'));
}

} // namespace

expected<schema_document> schema_document::parse(std::string_view text) {
  boost::system::error_code failed;
  json::parse_options options;
  options.max_depth = 32;
  auto value = json::parse(text, failed, {}, options);
  if (failed == json::error::too_deep) return error(errc::invalid_argument, "schema: more than 32 levels");
  if (failed) return error(errc::invalid_argument, "schema: not JSON: " + failed.message());
  schema_document document;
  document.has_unevaluated_ = text.find("\"unevaluated") != std::string_view::npos;
  document.root_ = &document.kept_.emplace_back(std::move(value));
  document.scopes_.emplace_back();
  document.scope_ids_.emplace(anchor_map(), 0);
  document.resources_.push_back({std::string(default_uri), document.root_, {}, {}});
  document.by_uri_.emplace(default_uri, 0);
  document.index(document.root_, {nullptr, {}, 0, 0, 0}, role::schema, true);
  if (document.failure_) return *document.failure_;
  // All dynamic anchors are known only now, so the scopes are computed again.
  document.nodes_.clear();
  document.index(document.root_, {nullptr, {}, 0, 0, document.entered(0, 0)}, role::schema, false);
  return document;
}

schema_document::role schema_document::role_below(role outer, std::string_view key) {
  if (outer == role::schemas) return role::schema;
  if (outer == role::other) return role::other;
  for (const std::string_view name : {"allOf", "anyOf", "oneOf", "prefixItems", "properties",
                                      "patternProperties", "dependentSchemas", "$defs", "definitions"})
    if (key == name) return role::schemas;
  for (const std::string_view name :
       {"not", "if", "then", "else", "items", "contains", "unevaluatedItems", "additionalProperties",
        "unevaluatedProperties", "propertyNames", "contentSchema"})
    if (key == name) return role::schema;
  return role::other;
}

void schema_document::begin_resource(schema_ptr value, node& where, bool declares) {
  const auto* id = value->get_object().if_contains("$id");
  // In older drafts, "$id" may hold only an anchor.
  if (id == nullptr || !id->is_string() || without_fragment(view(id->get_string())).empty()) return;
  // A copy already has the number of its own resource. Its "$id" is relative to the URI of the resource
  // around it.
  const auto outer = where.parent == nullptr ? where.resource : nodes_.at(where.parent).resource;
  const auto& base = resources_[outer].uri;
  const std::string uri = resolved(base, without_fragment(view(id->get_string())));
  if (value == root_ || where.parent == nullptr) {
    if (declares) resources_[0].uri = uri, by_uri_.emplace(uri, 0);
    return;
  }
  if (declares) {
    where.resource = static_cast<std::uint32_t>(resources_.size());
    resources_.push_back({uri, value, {}, {}});
    nodes_.emplace(value, where);
    if (!by_uri_.emplace(uri, where.resource).second && !failure_)
      failure_ = refusal(errc::invalid_argument, value, "$id", "another schema has it, too");
  } else if (const auto known = by_uri_.find(uri); known != by_uri_.end()) {
    where.resource = known->second;
    where.scope = entered(where.scope, where.resource);
  }
}

void schema_document::index(schema_ptr value, node where, role what, bool declares) {
  const auto* object = value->if_object();
  if (what == role::schema && object != nullptr) begin_resource(value, where, declares);
  nodes_.emplace(value, where);
  if (const auto* array = value->if_array()) {
    for (std::size_t i = 0; i < array->size(); ++i)
      index(&(*array)[i], {value, {}, i, where.resource, where.scope}, role_below(what, {}), declares);
    return;
  }
  if (object == nullptr) return;
  for (const auto& member : *object) {
    const std::string_view name(member.key().data(), member.key().size());
    if (declares && name.starts_with('\x01') && !failure_)
      failure_.emplace(errc::invalid_argument, "schema: a name begins with the character U+0001");
    const auto* text = member.value().if_string();
    if (declares && what == role::schema && text != nullptr &&
        (name == "$anchor" || name == "$dynamicAnchor")) {
      auto& own = resources_[where.resource];
      own.anchors.emplace(view(*text), value);
      if (name == "$dynamicAnchor") own.dynamic_anchors.emplace(view(*text), value);
    }
    // The values of these keywords are not schemas.
    if (what == role::schema &&
        (name == "const" || name == "enum" || name == "default" || name == "examples"))
      continue;
    index(&member.value(), {value, name, 0, where.resource, where.scope}, role_below(what, name), declares);
  }
}

std::uint32_t schema_document::entered(std::uint32_t outer, std::uint32_t resource) {
  const auto& own = resources_[resource].dynamic_anchors;
  if (own.empty() || num_scope_entries_ > max_scope_entries) return outer; // `resolve` refuses what follows
  const bool is_known = std::all_of(own.begin(), own.end(),
                                    [&](const auto& one) { return scopes_[outer].contains(one.first); });
  if (is_known) return outer;
  anchor_map all = scopes_[outer];
  all.insert(own.begin(), own.end());
  const auto [found, is_new] = scope_ids_.emplace(all, static_cast<std::uint32_t>(scopes_.size()));
  if (!is_new) return found->second;
  num_scope_entries_ += all.size();
  scopes_.push_back(std::move(all));
  return found->second;
}

std::string schema_document::place(schema_ptr where) const {
  std::vector<std::string> steps;
  for (auto found = nodes_.find(where); found != nodes_.end() && found->second.parent != nullptr;
       found = nodes_.find(found->second.parent)) {
    const auto& [parent, key, index, resource, scope] = found->second;
    steps.push_back(parent->is_array()
                        ? std::to_string(index)
                        : replaced(replaced(std::string(key.substr(0, 200)), "~", "~0"), "/", "~1"));
  }
  std::string out = "#";
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) out += "/" + *step;
  return out;
}

error schema_document::refusal(errc code, schema_ptr where, std::string_view keyword,
                               std::string_view rule) const {
  std::string text = "schema: " + place(where);
  if (!keyword.empty()) text += "/" + std::string(keyword);
  return {code, text + ": " + std::string(rule)};
}

schema_ptr schema_document::add(json::value schema, schema_ptr instead_of) {
  schema_ptr added = &kept_.emplace_back(std::move(schema));
  const auto found = nodes_.find(instead_of);
  index(added, found == nodes_.end() ? node{} : found->second, role::other, false);
  return added;
}

std::uint64_t schema_document::handle_of(const json::value* where) {
  const auto [found, is_new] = handle_ids_.emplace(where, handles_.size());
  if (is_new) handles_.push_back(where);
  return found->second;
}

expected<schema_ptr> schema_document::target_of(const node& from, std::string_view reference,
                                                std::string_view& fragment, std::string_view& rule) const {
  const auto document = without_fragment(reference);
  fragment = document.size() < reference.size() ? reference.substr(document.size() + 1) : std::string_view();
  std::uint32_t number = from.resource;
  if (!document.empty()) {
    const auto found = by_uri_.find(resolved(resources_[from.resource].uri, document));
    if (found == by_uri_.end()) {
      rule = "is in another document";
      return error(errc::unsupported, "");
    }
    number = found->second;
  }
  rule = "names no place in the schema";
  const auto& in = resources_[number];
  const std::string steps = percent_decoded(fragment);
  if (steps.empty()) return in.root;
  if (steps.front() != '/') {
    const auto found = in.anchors.find(steps);
    return found == in.anchors.end() ? expected<schema_ptr>(error(errc::invalid_argument, ""))
                                     : found->second;
  }
  schema_ptr at = in.root;
  for (std::size_t begin = 1; begin <= steps.size();) {
    const auto end = std::min(steps.find('/', begin), steps.size());
    at = child(at, replaced(replaced(steps.substr(begin, end - begin), "~1", "/"), "~0", "~"));
    if (at == nullptr) return error(errc::invalid_argument, "");
    begin = end + 1;
  }
  return at;
}

expected<schema_ptr> schema_document::in_scope(schema_ptr target, std::uint32_t scope, schema_ptr from,
                                               std::string_view keyword) {
  const auto found = nodes_.find(target);
  if (found == nodes_.end()) // the target is within a value that is no schema
    return refusal(errc::invalid_argument, from, keyword, "the reference names no schema");
  const node at = found->second;
  scope = entered(scope, at.resource);
  if (num_scope_entries_ > max_scope_entries)
    return refusal(errc::unsupported, from, keyword, "the dynamic scopes are too many");
  if (scope == at.scope) return target;
  const schema_ptr original = resources_[at.resource].root;
  auto& copy = copies_[{original, scope}];
  if (copy == nullptr) {
    size_of_copies_ += size_of(*original);
    if (size_of_copies_ > max_size_of_copies)
      return refusal(errc::unsupported, from, keyword, "the dynamic scopes are too many");
    copy = &kept_.emplace_back(*original);
    node where = nodes_.at(original);
    where.scope = scope;
    index(copy, where, role::schema, false);
  }
  std::vector<const node*> steps;
  for (schema_ptr step = target; step != original; step = steps.back()->parent)
    steps.push_back(&nodes_.at(step));
  schema_ptr out = copy;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    out = out->is_array() ? &out->get_array()[(*step)->index] : out->get_object().if_contains((*step)->key);
  return out;
}

expected<schema_ptr> schema_document::resolve(schema_ptr from, std::string_view keyword) {
  const auto known = found_.find({from, keyword});
  if (known != found_.end()) return known->second;
  auto target = find(from, keyword);
  if (target) found_.emplace(std::pair(from, keyword), *target);
  return target;
}

expected<schema_ptr> schema_document::find(schema_ptr from, std::string_view keyword) {
  const auto reference = view(member(from, keyword)->get_string());
  const auto found = nodes_.find(from);
  const node at = found == nodes_.end() ? node{} : found->second;
  std::string_view fragment;
  std::string_view rule;
  auto target = target_of(at, reference, fragment, rule);
  if (!target)
    return refusal(target.error().code(), from, keyword,
                   "'" + std::string(reference.substr(0, 200)) + "' " + std::string(rule));
  if (keyword == "$dynamicRef") {
    const std::string anchor = percent_decoded(fragment);
    const auto in = nodes_.find(*target);
    const bool is_dynamic =
        in != nodes_.end() && resources_[in->second.resource].dynamic_anchors.contains(anchor);
    const auto& scope = scopes_[at.scope];
    if (const auto outermost = scope.find(anchor); is_dynamic && outermost != scope.end())
      target = outermost->second;
  }
  return in_scope(*target, at.scope, from, keyword);
}

} // namespace paceline::grammar
