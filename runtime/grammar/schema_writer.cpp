#include "runtime/grammar/schema_writer.hpp"

#include "runtime/grammar/code_points.hpp"
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

constexpr std::size_t max_rules = 4'000;
constexpr std::size_t max_text_bytes = 512U << 10U;

} // namespace

std::string schema_writer::new_name(std::string_view prefix) {
  if (++num_rules_ > max_rules)
    algebra_.refuse(errc::unsupported, algebra_.document().root(), "",
                    "the schema needs more than 4000 rules");
  return std::string(prefix) + std::to_string(num_rules_);
}

void schema_writer::define(const std::string& name, const std::string& body) {
  text_ += name + " ::= " + body + "\n";
  if (text_.size() > max_text_bytes)
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
  for (schema_ptr root : roots) {
    const bool is_true = root->is_bool() && root->get_bool();
    if (!is_true && std::find(key.begin(), key.end(), root) == key.end()) key.push_back(root);
  }
  if (const auto found = rules_.find(key); found != rules_.end()) {
    open_.erase(found->second);
    return found->second;
  }
  if (failure()) return "";
  const std::string name = new_name("v");
  rules_[key] = name;
  open_.insert(name);
  std::string body;
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
  type_set types = types_of(schemas);
  for (const auto& [schema, parent] : schemas) {
    const auto* excluded = schema->get_object().if_contains(not_in_keyword);
    if (excluded == nullptr) continue;
    for (const auto& value : excluded->get_array()) {
      // Strings are left out one by one (text()); of the other types a value cannot be left out.
      if ((type_of(value) & types) == 0 || value.is_string() || value.is_bool() || value.is_null()) continue;
      algebra_.refuse(errc::unsupported, schema, "", "the negation of this value is not supported");
    }
  }
  const auto is_allowed = [&](const json::value& value) {
    return std::none_of(schemas.begin(), schemas.end(), [&](const conjunct& c) {
      const auto* excluded = c.schema->get_object().if_contains(not_in_keyword);
      return excluded != nullptr && std::find(excluded->get_array().begin(), excluded->get_array().end(),
                                              value) != excluded->get_array().end();
    });
  };
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
    bool is_valid = true;
    for (const auto& [schema, parent] : schemas) {
      const auto answer = algebra_.is_valid(value, schema);
      if (!answer)
        algebra_.refuse(errc::unsupported, schema, "",
                        "this schema beside values of 'const' or 'enum' is not supported");
      is_valid = is_valid && answer == true;
    }
    if (is_valid) add_alternative(body, literal(value, may_have_fraction));
  }
  return body;
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
  const json::value* unit = nullptr;
  for (const auto& [schema, parent] : schemas) {
    const auto* own = schema->get_object().if_contains("multipleOf");
    if (own == nullptr) continue;
    if (unit != nullptr && !are_equal(*unit, *own))
      algebra_.refuse(errc::unsupported, schema, "multipleOf", "two of them are not supported");
    unit = own;
  }
  const auto bounds = bounds_of(schemas);
  if (!bounds.is_exact)
    for (const auto& [schema, parent] : schemas)
      for (const char* keyword : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
        if (const auto* value = schema->get_object().if_contains(keyword);
            value != nullptr && !to_bound(*value, false))
          algebra_.refuse(errc::unsupported, schema, keyword,
                          "bounds of more than 15 digits or 6 decimals are not supported");
  if (failure()) return "";
  if (unit != nullptr) return multiples(schemas, types, *unit);
  if ((types & fraction_type) == 0) {
    if (!bounds.min && !bounds.max) return "json_integer";
    return integer_range(bounds.min, bounds.max);
  }
  if ((types & integer_type) == 0) {
    if (!bounds.min && !bounds.max) return "json_fraction";
    algebra_.refuse(errc::unsupported, schemas.front().schema, "",
                    "bounds of numbers that are not integers are not supported");
  }
  if (!bounds.min && !bounds.max) return "json_number";
  return number_range(bounds.min, bounds.max);
}

std::string schema_writer::multiples(const conjunction& schemas, type_set types, const json::value& unit) {
  constexpr std::int64_t max_states = 64;
  constexpr std::int64_t max_values = 1'000;
  const auto refuse = [&](std::string_view rule) {
    for (const auto& [schema, parent] : schemas)
      if (schema->get_object().contains("multipleOf"))
        algebra_.refuse(errc::unsupported, schema, "multipleOf", rule);
    return std::string();
  };
  const auto bounds = bounds_of(schemas);
  const auto decimal = to_bound(unit, false);
  if (decimal && decimal->num_decimals > 0 && decimal->scaled == 1 && !bounds.min && !bounds.max &&
      (types & fraction_type) != 0)
    return "\"-\"? json_natural (\".\" [0-9]{1," + std::to_string(decimal->num_decimals) + "})?";
  if (!decimal || decimal->num_decimals > 0)
    return refuse("only whole numbers and 0.1, 0.01, ... are supported");
  const std::int64_t step = decimal->scaled;
  if (bounds.min && bounds.max) {
    const auto floor_of = [&](const decimal_bound& b) {
      return std::floor(static_cast<double>(b.scaled) / std::pow(10.0, b.num_decimals) /
                        static_cast<double>(step));
    };
    const double first = floor_of(*bounds.min) - 1;
    if (floor_of(*bounds.max) - first > static_cast<double>(max_values))
      return refuse("more than 1000 values between the bounds are not supported");
    std::string body;
    for (auto times = static_cast<std::int64_t>(first);
         times <= static_cast<std::int64_t>(first) + max_values + 1; ++times) {
      const json::value value = times * step;
      const bool is_valid = std::all_of(schemas.begin(), schemas.end(), [&](const conjunct& c) {
        return algebra_.is_valid(value, c.schema) != false;
      });
      if (is_valid) add_alternative(body, "\"" + std::to_string(times * step) + "\"");
    }
    return body.empty() ? body : "(" + body + ")";
  }
  if (bounds.min || bounds.max) return refuse("one bound alone beside it is not supported");
  if (step > max_states) return refuse("above 64 it is supported between two bounds only");
  if (step == 1) return "json_integer";
  // One rule for each remainder of the digits so far.
  const std::string prefix = new_name("m") + "_";
  const auto next = [&](std::int64_t remainder, std::int64_t first_digit) {
    std::string body;
    for (std::int64_t digit = first_digit; digit < 10; ++digit)
      add_alternative(body, "\"" + std::to_string(digit) + "\" " + prefix +
                                std::to_string((remainder * 10 + digit) % step));
    return body;
  };
  for (std::int64_t remainder = 0; remainder < step; ++remainder) {
    new_name("");
    define(prefix + std::to_string(remainder), (remainder == 0 ? "\"\" | " : "") + next(remainder, 0));
  }
  return "(\"0\" | \"-\"? (" + next(0, 1) + "))";
}

std::string schema_writer::write() {
  const std::string root = value({algebra_.document().root()});
  if (failure() || root.empty()) return "";
  return "root ::= " + root + "\n" + text_ + json_character_rules() + R"(ws ::= " "? | "\n" [ \t]{0,20}
json_string ::= "\"" json_rest
json_plain_end ::= [ !#-\[\]-\U0010FFFF]* "\""
json_natural ::= "0" | [1-9] [0-9]*
json_integer ::= "0" | "-"? [1-9] [0-9]*
json_fraction ::= "-"? json_natural "." [0-9]* [1-9] [0-9]*
json_number ::= "-"? json_natural ("." [0-9]+)? ([eE] [+\-]? [0-9]{1,2})?
)";
}

expected<std::string> schema_to_ebnf(std::string_view schema) {
  auto document = schema_document::parse(schema);
  if (!document) return std::move(document).error();
  schema_writer writer(*document);
  std::string text = writer.write();
  if (writer.failure()) return *writer.failure();
  if (text.empty()) return error(errc::invalid_argument, "schema: #: no value obeys it");
  return text;
}

} // namespace paceline::grammar
