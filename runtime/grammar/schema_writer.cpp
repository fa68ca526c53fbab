#include "runtime/grammar/schema_writer.hpp"

#include "runtime/grammar/code_points.hpp"
#include "runtime/grammar/endless_rules.hpp"
#include "runtime/grammar/regex_syntax.hpp"
#include "runtime/grammar/schema_grammar.hpp"
#include "runtime/grammar/schema_keywords.hpp"

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace paceline::grammar {

namespace {

namespace json = boost::json;

constexpr std::size_t max_excluded = 32; // numbers

/// True if `unit` is 1, 0.1, 0.01, ..., of which all integers are multiples, and only integers are wanted.
bool is_unit_of_integers(const json::value& unit, type_set types) {
  constexpr int max_decimals = 15;
  if ((types & fraction_type) != 0) return false;
  for (int k = 0; k <= max_decimals; ++k)
    if (unit.to_number<double>() == 1.0 / std::pow(10.0, k)) return true;
  return false;
}

} // namespace

std::string schema_writer::new_name(std::string_view prefix) {
  if (++num_rules_ > most_schema_cost.rules)
    algebra_.refuse(errc::unsupported, algebra_.document().root(), "",
                    "the schema needs more than 4000 rules");
  return std::string(prefix) + std::to_string(num_rules_);
}

void schema_writer::define(const std::string& name, const std::string& body) {
  text_ += name + " ::= " + body + "\n";
  if (text_.size() > most_schema_cost.bytes)
    algebra_.refuse(errc::unsupported, algebra_.document().root(), "",
                    "the grammar of the schema is above 512 KiB");
}

std::string schema_writer::add_rule(std::string_view prefix, const std::string& body) {
  if (const auto found = names_.find(body); found != names_.end()) return found->second;
  std::string name = new_name(prefix);
  define(name, body);
  names_.emplace(body, name);
  return name;
}

std::string schema_writer::value(const std::vector<schema_ptr>& roots) {
  std::vector<schema_ptr> key;
  std::set<schema_ptr> known;
  for (schema_ptr root : roots) {
    const bool is_true = root->is_bool() && root->get_bool();
    if (!is_true && known.insert(root).second) key.push_back(root);
  }
  if (const auto found = rules_.find(key); found != rules_.end()) {
    open_.erase(found->second);
    return found->second;
  }
  if (failure()) return "";
  if (depth_ == max_depth && !key.empty()) {
    algebra_.refuse(errc::unsupported, key.front(), "", "schemas within each other go too deep");
    return "";
  }
  const nesting deeper(depth_);
  const std::string name = new_name("v");
  rules_[key] = name;
  open_.insert(name);
  std::string body;
  if (const auto separate = algebra_.separate_alternatives(key); !separate.empty())
    for (schema_ptr one : separate) add_alternative(body, value({one}));
  else
    for (const auto& schemas : algebra_.alternatives(key)) add_alternative(body, alternative(schemas));
  const bool was_used = open_.erase(name) == 0;
  if (body.empty()) {
    if (was_used)
      algebra_.refuse(errc::unsupported, key.front(), "",
                      "no value obeys this schema, which refers to itself");
    rules_[key].clear();
    return "";
  }
  define(name, body);
  return name;
}

std::string schema_writer::alternative(const conjunction& schemas) {
  if (failure()) return "";
  if (auto listed = listed_values(schemas)) return *listed;
  const type_set types = algebra_.types_of(schemas);
  if (!algebra_.excluded_values(schemas, types & (array_type | object_type)).empty())
    algebra_.refuse(errc::unsupported, schemas.front().schema, "",
                    "the negation of an array or object is not supported");
  const auto is_allowed = [&](const json::value& value) { return !algebra_.is_excluded(schemas, value); };
  std::string body;
  if ((types & null_type) != 0 && is_allowed(nullptr)) add_alternative(body, "\"null\"");
  if ((types & boolean_type) != 0 && is_allowed(true)) add_alternative(body, "\"true\"");
  if ((types & boolean_type) != 0 && is_allowed(false)) add_alternative(body, "\"false\"");
  if ((types & number_types) != 0) add_alternative(body, number(schemas, types));
  if ((types & string_type) != 0) add_alternative(body, text(schemas));
  if ((types & array_type) != 0) add_alternative(body, array(schemas));
  if ((types & object_type) != 0) add_alternative(body, object(schemas));
  return body;
}

std::optional<std::string> schema_writer::listed_values(const conjunction& schemas) {
  const json::array* candidates = nullptr;
  json::array only;
  for (const auto& [schema, parent] : schemas) {
    if (const auto* value = schema->get_object().if_contains("const"))
      only.push_back(*value), candidates = &only;
    if (const auto* values = schema->get_object().if_contains("enum");
        values != nullptr && candidates == nullptr)
      candidates = &values->get_array();
  }
  if (candidates == nullptr) return std::nullopt;
  if (!only.empty()) only.resize(1);
  const bool may_have_fraction = std::none_of(schemas.begin(), schemas.end(), [](const conjunct& c) {
    const auto* type = c.schema->get_object().if_contains("type");
    return type != nullptr && type->is_string() && type->get_string() == "integer";
  });
  std::string body;
  for (const auto& value : *candidates) {
    if (failure()) return "";
    if (obeys(value, schemas)) add_alternative(body, literal(value, may_have_fraction));
  }
  return body;
}

bool schema_writer::obeys(const json::value& value, const conjunction& schemas) {
  for (const auto& [schema, parent] : schemas) {
    const auto answer = algebra_.is_valid(value, schema);
    if (answer == true) continue;
    if (!answer)
      algebra_.refuse(errc::unsupported, schema, "",
                      "this schema beside values of 'const' or 'enum' is not supported");
    return false;
  }
  return true;
}

std::string schema_writer::literal(const json::value& value, bool may_have_fraction) {
  std::string out;
  switch (value.kind()) {
  case json::kind::string:
    return json_text_literal({value.get_string().data(), value.get_string().size()});
  case json::kind::array:
    for (const auto& item : value.get_array())
      out += (out.empty() ? "" : " \",\" ws ") + literal(item, may_have_fraction);
    return "\"[\" ws " + out + (out.empty() ? "" : " ws") + " \"]\"";
  case json::kind::object:
    for (const auto& entry : value.get_object())
      out += (out.empty() ? "" : " \",\" ws ") + json_text_literal({entry.key().data(), entry.key().size()}) +
             " \":\" ws " + literal(entry.value(), may_have_fraction);
    return "\"{\" ws " + out + (out.empty() ? "" : " ws") + " \"}\"";
  case json::kind::double_: {
    const double number = value.get_double();
    std::array<char, 64> digits{};
    const bool is_whole = std::floor(number) == number && std::abs(number) < 1e15;
    const auto end = is_whole ? std::to_chars(digits.data(), digits.data() + digits.size(),
                                              static_cast<std::int64_t>(number))
                                    .ptr
                              : std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    append_literal(out, {digits.data(), static_cast<std::size_t>(end - digits.data())});
    return is_whole && may_have_fraction ? "(" + out + " (\".0\")?)" : out;
  }
  default:
    break;
  }
  append_literal(out, json::serialize(value));
  return value.is_number() && may_have_fraction ? "(" + out + " (\".0\")?)" : out;
}

std::string schema_writer::number(const conjunction& schemas, type_set types) {
  std::optional<decimal_bound> unit;
  for (const auto& [schema, parent] : schemas) {
    const auto* own = schema->get_object().if_contains("multipleOf");
    if (own == nullptr || is_unit_of_integers(*own, types)) continue;
    const auto decimal = to_bound(*own, false);
    if (decimal) unit = unit ? common_multiple(*unit, *decimal) : decimal;
    if (!decimal || !unit) {
      algebra_.refuse(errc::unsupported, schema, "multipleOf", "numbers of so many digits are not supported");
      return "";
    }
  }
  const auto bounds = bounds_of(schemas);
  if (!bounds.is_exact)
    for (const auto& [schema, parent] : schemas)
      for (const char* keyword : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
        if (const auto* value = schema->get_object().if_contains(keyword);
            value != nullptr && !bound_of(*value, keyword))
          algebra_.refuse(
              errc::unsupported, schema, keyword,
              "integers beyond 64 bits, and fractions of more than 15 digits or 6 decimals, are not "
              "supported");
  if (failure()) return "";
  std::vector<decimal_bound> excluded;
  for (const auto* value : algebra_.excluded_values(schemas, types & number_types)) {
    const auto decimal = to_bound(*value, true);
    if (!decimal || unit || excluded.size() == max_excluded)
      algebra_.refuse(errc::unsupported, schemas.front().schema, "",
                      "the negation of a number is not supported here");
    else
      excluded.push_back(*decimal);
  }
  if (failure()) return "";
  if (unit) return multiples(schemas, types, bounds, *unit);
  if (!excluded.empty()) return numbers_between(types, bounds, std::move(excluded));
  return numbers_within(types, bounds.min, bounds.max);
}

std::string schema_writer::numbers_within(type_set types, const std::optional<decimal_bound>& min,
                                          const std::optional<decimal_bound>& max) {
  const bool has_bounds = min || max;
  const auto ranged = [&](const std::string& range) { return range.empty() ? range : add_rule("n", range); };
  if ((types & fraction_type) == 0) return has_bounds ? ranged(integer_range(min, max)) : "json_integer";
  if ((types & integer_type) == 0) return has_bounds ? ranged(fraction_range(min, max)) : "json_fraction";
  return has_bounds ? ranged(number_range(min, max)) : "json_number";
}

std::string schema_writer::numbers_between(type_set types, const number_bounds& bounds,
                                           std::vector<decimal_bound> excluded) {
  std::sort(excluded.begin(), excluded.end(), is_less);
  std::string body;
  auto low = bounds.min;
  for (const auto& value : excluded) {
    if (bounds.max && is_less(*bounds.max, value)) break;
    if (low && is_less(value, *low)) continue;
    add_alternative(body, numbers_within(types, low, value));
    low = value;
  }
  add_alternative(body, numbers_within(types, low, bounds.max));
  return body.empty() ? body : "(" + body + ")";
}

std::optional<std::string> schema_writer::listed_multiples(type_set types, const number_bounds& bounds,
                                                           const decimal_bound& unit) {
  constexpr std::size_t max_values = 1'000;
  const auto values = multiples_between(*bounds.min, *bounds.max, unit, max_values);
  if (!values) return std::nullopt;
  std::string body;
  for (const auto& value : *values) {
    const std::string text = decimal_text(value);
    const bool is_integer = text.find('.') == std::string::npos;
    if ((types & (is_integer ? integer_type : fraction_type)) == 0) continue;
    std::string one;
    append_literal(one, text);
    add_alternative(body, one);
  }
  return body.empty() ? body : "(" + body + ")";
}

std::string schema_writer::multiples(const conjunction& schemas, type_set types, const number_bounds& bounds,
                                     const decimal_bound& unit) {
  const auto refuse = [&](std::string_view rule) {
    for (const auto& [schema, parent] : schemas)
      if (schema->get_object().contains("multipleOf"))
        algebra_.refuse(errc::unsupported, schema, "multipleOf", rule);
    return std::string();
  };
  if (bounds.min && bounds.max)
    if (auto listed = listed_multiples(types, bounds, unit)) return *listed;
  if ((types & integer_type) == 0) return refuse("of numbers that are not integers it is not supported");
  // A bound of zero only determines the sign.
  const auto is_zero = [](const std::optional<decimal_bound>& b) { return !b || b->scaled == 0; };
  if (!is_zero(bounds.min) || !is_zero(bounds.max))
    return refuse(
        "beside bounds other than 0, with more than 1000 values between them or too many digits, it "
        "is not supported");
  const bool with_zero =
      !(bounds.min && bounds.min->is_exclusive) && !(bounds.max && bounds.max->is_exclusive);
  if (bounds.min && bounds.max) return with_zero ? "\"0\"" : "";
  const std::string prefix = new_name("m") + "_";
  const auto rules = multiples_of(unit, (types & fraction_type) == 0, with_zero, prefix);
  if (!rules) return refuse("of so large a number it is supported between two bounds only");
  for (std::size_t i = 0; i < rules->bodies.size(); ++i) {
    if (rules->bodies[i].empty()) continue;
    new_name("");
    define(prefix + std::to_string(i), rules->bodies[i]);
  }
  if (bounds.min) return "(" + rules->first + ")";
  if (bounds.max) return std::string(with_zero ? "(\"0\" | " : "(") + "\"-\" (" + rules->first + "))";
  return "\"-\"? (" + rules->first + ")"; // "-0" is a number, too
}

/// A reply that began such a value could never end. The error names the first one in the grammar, because the
/// order of `rules_` is that of addresses.
void schema_writer::refuse_endless_values(const std::string& root) {
  for (const std::string& name : endless_rules(text_, root)) {
    const auto of_schema = std::ranges::find(rules_, name, [](const auto& rule) { return rule.second; });
    if (of_schema == rules_.end()) continue; // a part of one that follows
    algebra_.refuse(errc::invalid_argument, of_schema->first.front(), "",
                    "every value that obeys this schema contains another one, without end");
    return;
  }
}

std::string schema_writer::write() {
  const std::string root = value({algebra_.document().root()});
  if (!failure()) refuse_endless_values(root);
  if (failure() || root.empty()) return "";
  return "root ::= " + root + "\n" + text_ + json_character_rules() + std::string(format_rules()) +
         R"(json_characters ::= "" | [ !#-\[\]-\U0010FFFF] json_characters | "\\" json_escape json_characters
ws ::= " "? | "\n" [ \t]{0,20}
json_string ::= "\"" json_rest
json_plain_end ::= [ !#-\[\]-\U0010FFFF]* "\""
json_natural ::= "0" | [1-9] [0-9]*
json_integer ::= "0" | "-"? [1-9] [0-9]*
json_fraction ::= "-"? ("0" | [1-9] [0-9]{0,7}) "." [0-9]{0,5} [1-9] "0"*
json_number ::= "-"? json_natural ("." [0-9]+)? ([eE] [+\-]? [0-9]{1,2})?
)";
}

schema_cost schema_writer::cost() {
  return {algebra_.num_steps(), most_schema_cost.automaton_work - algebra_.facts().automaton_work(),
          num_rules_, num_places_, text_.size()};
}

schema_cost& schema_cost::operator+=(const schema_cost& other) noexcept {
  steps += other.steps;
  automaton_work += other.automaton_work;
  rules += other.rules;
  places += other.places;
  bytes += other.bytes;
  return *this;
}

bool schema_cost::is_within(const schema_cost& most) const noexcept {
  return steps <= most.steps && automaton_work <= most.automaton_work && rules <= most.rules &&
         places <= most.places && bytes <= most.bytes;
}

expected<std::string> schema_to_ebnf(std::string_view schema, schema_cost* cost) {
  auto document = schema_document::parse(schema);
  if (!document) return std::move(document).error();
  schema_writer writer(*document);
  std::string text = writer.write();
  if (cost != nullptr) *cost = writer.cost();
  if (writer.failure()) return *writer.failure();
  if (text.empty()) return error(errc::invalid_argument, "schema: #: no value obeys it");
  return text;
}

} // namespace paceline::grammar
