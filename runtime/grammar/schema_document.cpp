#include "runtime/grammar/schema_document.hpp"

#include <boost/json/parse.hpp>

#include <algorithm>
#include <charconv>
#include <utility>

namespace paceline::grammar {

namespace {

namespace json = boost::json;

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

} // namespace

expected<schema_document> schema_document::parse(std::string_view text) {
  boost::system::error_code failed;
  json::parse_options options;
  options.max_depth = 32;
  auto value = json::parse(text, failed, {}, options);
  if (failed == json::error::too_deep) return error(errc::invalid_argument, "schema: more than 32 levels");
  if (failed) return error(errc::invalid_argument, "schema: not JSON: " + failed.message());
  schema_document document;
  document.root_ = &document.kept_.emplace_back(std::move(value));
  if (const auto* object = document.root_->if_object())
    if (const auto* id = object->if_contains("$id"); id != nullptr && id->is_string())
      document.id_ = std::string(id->get_string()).substr(0, std::string(id->get_string()).find('#'));
  document.index(document.root_, "#");
  if (document.has_own_keyword_)
    return error(errc::invalid_argument, "schema: a name begins with the character U+0001");
  return document;
}

void schema_document::index(schema_ptr value, const std::string& place) {
  places_.emplace(value, place);
  if (const auto* array = value->if_array()) {
    for (std::size_t i = 0; i < array->size(); ++i) index(&(*array)[i], place + "/" + std::to_string(i));
    return;
  }
  const auto* object = value->if_object();
  if (object == nullptr) return;
  for (const auto& member : *object) {
    const std::string name(member.key());
    if (name.starts_with('\x01')) has_own_keyword_ = true;
    if (const auto* text = member.value().if_string()) {
      const std::string anchor(*text);
      if (name == "$anchor" || name == "$dynamicAnchor") anchors_.emplace(anchor, value);
      if (name == "$dynamicAnchor") ++num_dynamic_anchors_[anchor];
      if (name == "$id" && value != root_) nested_id_ = value;
    }
    // What these hold is no schema.
    if (name == "const" || name == "enum" || name == "default" || name == "examples") continue;
    index(&member.value(), place + "/" + replaced(replaced(name, "~", "~0"), "/", "~1"));
  }
}

std::string schema_document::place(schema_ptr where) const {
  const auto found = places_.find(where);
  return found == places_.end() ? "#" : found->second;
}

error schema_document::refusal(errc code, schema_ptr where, std::string_view keyword,
                               std::string_view rule) const {
  std::string text = "schema: " + place(where);
  if (!keyword.empty()) text += "/" + std::string(keyword);
  return {code, text + ": " + std::string(rule)};
}

schema_ptr schema_document::add(json::value schema, schema_ptr instead_of) {
  schema_ptr added = &kept_.emplace_back(std::move(schema));
  places_.emplace(added, place(instead_of));
  return added;
}

expected<schema_ptr> schema_document::resolve(schema_ptr from, std::string_view reference) const {
  const auto refuse = [&](errc code, std::string_view rule) {
    return refusal(code, from, "$ref",
                   "'" + std::string(reference.substr(0, 200)) + "' " + std::string(rule));
  };
  // References may be relative to the nearest "$id", and anchors belong to it.
  if (nested_id_ != nullptr)
    return refuse(errc::unsupported,
                  "cannot be followed, because " + place(nested_id_) + " has an $id of its own");
  const auto hash = reference.find('#');
  const auto document = reference.substr(0, hash);
  if (!document.empty() && document != id_) return refuse(errc::unsupported, "is in another document");
  const std::string fragment =
      hash == std::string_view::npos ? "" : percent_decoded(reference.substr(hash + 1));
  if (fragment.empty()) return root_;
  if (fragment.front() != '/') {
    const auto found = anchors_.find(fragment);
    if (found == anchors_.end()) return refuse(errc::invalid_argument, "names no place in the schema");
    if (const auto dynamic = num_dynamic_anchors_.find(fragment);
        dynamic != num_dynamic_anchors_.end() && dynamic->second > 1)
      return refuse(errc::unsupported, "has several targets");
    return found->second;
  }
  schema_ptr at = root_;
  for (std::size_t begin = 1; begin <= fragment.size();) {
    const auto end = std::min(fragment.find('/', begin), fragment.size());
    at = child(at, replaced(replaced(fragment.substr(begin, end - begin), "~1", "/"), "~0", "~"));
    if (at == nullptr) return refuse(errc::invalid_argument, "names no place in the schema");
    begin = end + 1;
  }
  return at;
}

} // namespace paceline::grammar
