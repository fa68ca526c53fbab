// Validates values that a schema itself contains, such as those of "enum".
#include "runtime/grammar/regex_syntax.hpp"
#include "runtime/grammar/schema_algebra.hpp"
#include "runtime/grammar/schema_keywords.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace paceline::grammar {

namespace {

namespace json = boost::json;

constexpr std::size_t max_checked_depth = 24;
constexpr std::size_t steps_per_spent = 64;
constexpr std::size_t max_format_text = 60; // for longer texts the pattern of a format is not exact

/// The conjunction of three-valued answers. It is false as soon as one answer is false.
class verdict {
 public:
  void also(std::optional<bool> answer) {
    if (answer == false) is_false_ = true;
    if (!answer) is_open_ = true;
  }
  bool is_false() const noexcept { return is_false_; }
  std::optional<bool> value() const {
    if (is_false_) return false;
    return is_open_ ? std::nullopt : std::optional(true);
  }

 private:
  bool is_false_ = false;
  bool is_open_ = false;
};

std::size_t num_characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

} // namespace

std::optional<bool> schema_algebra::is_valid_scalar(const json::value& value, schema_ptr schema) {
  const conjunction alone{{schema, -1}};
  const auto& keywords = schema->get_object();
  verdict out;
  if (value.is_number()) {
    const auto number = exact_number(value);
    if (const auto* bound = keywords.if_contains("minimum")) out.also(number >= exact_number(*bound));
    if (const auto* bound = keywords.if_contains("maximum")) out.also(number <= exact_number(*bound));
    if (const auto* bound = keywords.if_contains("exclusiveMinimum")) out.also(number > exact_number(*bound));
    if (const auto* bound = keywords.if_contains("exclusiveMaximum")) out.also(number < exact_number(*bound));
    if (const auto* unit = keywords.if_contains("multipleOf")) out.also(is_multiple(value, *unit));
  } else if (value.is_string()) {
    const auto text = view(value.get_string());
    if (const auto least = largest(alone, "minLength")) out.also(num_characters(text) >= *least);
    if (const auto most = smallest(alone, "maxLength")) out.also(num_characters(text) <= *most);
    if (const auto* pattern = keywords.if_contains("pattern"))
      out.also(matches_pattern(view(pattern->get_string()), text, schema));
    if (const auto* pattern = keywords.if_contains(not_pattern_keyword)) {
      const auto found = matches_pattern(view(document_.at_handle(*pattern)->get_string()), text, schema);
      out.also(found ? std::optional(!*found) : std::nullopt);
    }
    // The pattern of a format does not match all texts of the format. So only a match is certain.
    if (const auto* format = keywords.if_contains("format");
        format != nullptr && has_enforced_format(schema)) {
      const auto* named = format_named(view(format->get_string()));
      out.also(named != nullptr && text.size() <= max_format_text &&
                       matches_pattern(named->pattern, text, schema) == true
                   ? std::optional(true)
                   : std::nullopt);
    }
  }
  return out.value();
}

std::optional<bool> schema_algebra::is_valid_array(const json::array& value, schema_ptr schema,
                                                   std::size_t depth) {
  const conjunction alone{{schema, -1}};
  const auto& keywords = schema->get_object();
  verdict out;
  if (const auto least = largest(alone, "minItems")) out.also(value.size() >= *least);
  if (const auto most = smallest(alone, "maxItems")) out.also(value.size() <= *most);
  const auto* prefix = keywords.if_contains("prefixItems");
  const auto* items = keywords.if_contains("items");
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (prefix != nullptr && i < prefix->get_array().size())
      out.also(is_valid(value[i], &prefix->get_array()[i], depth));
    else if (items != nullptr)
      out.also(is_valid(value[i], items, depth));
  }
  if (const auto* contained = keywords.if_contains("contains")) {
    std::size_t least = 0;
    std::size_t most = 0;
    for (const auto& item : value) {
      const auto answer = is_valid(item, contained, depth);
      least += answer == true ? 1 : 0;
      most += answer == false ? 0 : 1;
    }
    const auto min = largest(alone, "minContains").value_or(1);
    const auto max = smallest(alone, "maxContains").value_or(unbounded);
    if (most < min || least > max)
      out.also(false);
    else if (least < min || most > max)
      out.also(std::nullopt);
  }
  if (const auto* unique = keywords.if_contains("uniqueItems"); unique != nullptr && unique->get_bool()) {
    std::set<std::string> texts;
    for (const auto& item : value) texts.insert(canonical_text(item));
    out.also(texts.size() == value.size());
  }
  if (keywords.contains("unevaluatedItems")) out.also(std::nullopt);
  return out.value();
}

std::optional<bool> schema_algebra::is_valid_object(const json::object& value, schema_ptr schema,
                                                    std::size_t depth) {
  const conjunction alone{{schema, -1}};
  const auto& keywords = schema->get_object();
  verdict out;
  if (const auto least = largest(alone, "minProperties")) out.also(value.size() >= *least);
  if (const auto most = smallest(alone, "maxProperties")) out.also(value.size() <= *most);
  if (const auto* required = keywords.if_contains("required"))
    for (const auto& key : required->get_array()) out.also(value.contains(key.get_string()));
  const auto* properties = keywords.if_contains("properties");
  const auto* patterns = keywords.if_contains("patternProperties");
  const auto* others = keywords.if_contains("additionalProperties");
  for (const auto& entry : value) {
    bool is_named = false;
    if (properties != nullptr)
      if (const auto* own = properties->get_object().if_contains(entry.key()))
        is_named = true, out.also(is_valid(entry.value(), own, depth));
    if (patterns != nullptr)
      for (const auto& pattern : patterns->get_object()) {
        const auto found = matches_pattern({pattern.key().data(), pattern.key().size()},
                                           {entry.key().data(), entry.key().size()}, schema);
        if (!found) return std::nullopt;
        if (*found) is_named = true, out.also(is_valid(entry.value(), &pattern.value(), depth));
      }
    if (!is_named && others != nullptr) out.also(is_valid(entry.value(), others, depth));
    if (const auto* names = keywords.if_contains("propertyNames"))
      out.also(is_valid(json::string(entry.key()), names, depth));
  }
  if (const auto* dependent = keywords.if_contains("dependentRequired"))
    for (const auto& entry : dependent->get_object())
      if (value.contains(entry.key()))
        for (const auto& name : entry.value().get_array()) out.also(value.contains(name.get_string()));
  if (const auto* dependent = keywords.if_contains("dependentSchemas"))
    for (const auto& entry : dependent->get_object())
      if (value.contains(entry.key())) out.also(is_valid(value, &entry.value(), depth));
  if (keywords.contains("unevaluatedProperties")) out.also(std::nullopt);
  return out.value();
}

std::optional<bool> schema_algebra::is_valid_combination(const json::value& value, schema_ptr schema,
                                                         std::size_t depth) {
  const auto& keywords = schema->get_object();
  verdict out;
  for (const std::string_view keyword :
       {std::string_view("$ref"), std::string_view("$dynamicRef"), here_keyword})
    if (keywords.contains(keyword)) {
      const auto target = referred(schema, keyword);
      out.also(target != nullptr ? is_valid(value, target, depth) : std::nullopt);
    }
  if (const auto* all = keywords.if_contains("allOf"))
    for (const auto& inner : all->get_array()) out.also(is_valid(value, &inner, depth));
  for (const std::string_view keyword : {"anyOf", "oneOf"}) {
    if (!keywords.contains(keyword)) continue;
    std::size_t num_valid = 0;
    bool is_open = false;
    for (const auto& one : united(schema, keyword)) {
      const auto answer = is_valid(value, one.allowed, depth);
      num_valid += answer == true ? 1 : 0;
      is_open = is_open || !answer;
      const bool is_listed_twice =
          answer == false && one.whole != one.allowed && is_valid(value, one.whole, depth) == true;
      num_valid += is_listed_twice ? 2 : 0;
    }
    const bool is_any = keyword == "anyOf";
    if (is_any ? num_valid > 0 : num_valid > 1)
      out.also(is_any);
    else
      out.also(is_open ? std::nullopt : std::optional(num_valid == 1));
  }
  if (const auto* inner = keywords.if_contains("not")) {
    const auto answer = is_valid(value, inner, depth);
    out.also(answer ? std::optional(!*answer) : std::nullopt);
  }
  if (const auto* test = keywords.if_contains("if")) {
    const auto answer = is_valid(value, test, depth);
    const auto* next = answer ? keywords.if_contains(*answer ? "then" : "else") : nullptr;
    if (!answer)
      out.also(std::nullopt);
    else if (next != nullptr)
      out.also(is_valid(value, next, depth));
  }
  return out.value();
}

std::optional<bool> schema_algebra::is_valid(const json::value& value, schema_ptr schema, std::size_t depth) {
  verdict out;
  out.also(is_valid_alone(value, schema, depth));
  if (out.is_false() || failure_ || !schema->is_object()) return out.value();
  if (depth < max_checked_depth) out.also(is_valid_combination(value, schema, depth + 1));
  return out.value();
}

std::optional<bool> schema_algebra::is_valid_alone(const json::value& value, schema_ptr schema,
                                                   std::size_t depth) {
  if (const auto* flag = schema->if_bool()) return *flag;
  constexpr std::size_t values_per_spent = 16;
  if (++depth > max_checked_depth || !schema->is_object() || !spend(1, schema) || !check(schema))
    return std::nullopt;
  if (!spend(facts_.width(schema) / values_per_spent, schema)) return std::nullopt;
  const auto& keywords = schema->get_object();
  verdict out;
  if ((types_of({{schema, -1}}) & type_of(value)) == 0) return false;
  const std::string text = canonical_text(value);
  if (!spend(text.size() / steps_per_spent, schema)) return std::nullopt;
  if (const auto* only = keywords.if_contains("const")) out.also(facts_.text(*only) == text);
  if (const auto* values = keywords.if_contains("enum")) out.also(facts_.lists(*values, text));
  if (is_excluded(schema, text)) return false;
  if (out.is_false()) return false;
  if (const auto* array = value.if_array())
    out.also(is_valid_array(*array, schema, depth));
  else if (const auto* object = value.if_object())
    out.also(is_valid_object(*object, schema, depth));
  else
    out.also(is_valid_scalar(value, schema));
  return out.value();
}

} // namespace paceline::grammar
