#pragma once

#include "runtime/grammar/schema_algebra.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::grammar {

/// Appends an alternative to the body of a rule. Empty ones match nothing and add nothing.
inline void add_alternative(std::string& body, const std::string& one) {
  if (one.empty()) return;
  if (!body.empty()) body += " | ";
  body += one;
}

/// Writes rules for schemas. An empty text stands for a rule or an expression that matches nothing. The first
/// error is in the algebra's `failure`; what is written after it has no meaning.
class schema_writer {
 public:
  explicit schema_writer(schema_document& document) : algebra_(document) {}

  /// The rules for the whole document; "" if no value obeys it.
  std::string write();
  const std::optional<error>& failure() const noexcept { return algebra_.failure(); }

 private:
  /// The name of the rule for values that obey all of `roots`.
  std::string value(const std::vector<schema_ptr>& roots);
  /// A rule with that body; rules with the same body are one.
  std::string add_rule(std::string_view prefix, const std::string& body);
  std::string new_name(std::string_view prefix);
  void define(const std::string& name, const std::string& body);

  std::string alternative(const conjunction& schemas);
  /// For schemas with "const" or "enum": nullopt for others.
  std::optional<std::string> listed_values(const conjunction& schemas);
  std::string literal(const boost::json::value& value, bool may_have_fraction);
  std::string number(const conjunction& schemas, type_set types);
  std::string multiples(const conjunction& schemas, type_set types, const boost::json::value& unit);
  std::string text(const conjunction& schemas);
  std::string pattern_text(const conjunction& schemas, schema_ptr from, std::string_view keyword,
                           std::string_view pattern);
  /// A JSON string, with quotes and without escapes, that is none of `texts`. Of many texts only the
  /// beginnings are told apart: then it begins as none of them.
  std::string text_except(const std::set<std::string>& texts);

  std::string array(const conjunction& schemas);
  std::string array_with(const conjunction& schemas, schema_ptr from, const boost::json::value& contained);
  std::vector<schema_ptr> item_schemas(const conjunction& schemas, std::size_t index);

  struct member {
    std::string rule; ///< "key": value
    bool is_required;
  };
  std::string object(const conjunction& schemas);
  std::vector<std::string> named_keys(const conjunction& schemas);
  /// A rule for a member that no schema names; "" if there can be none.
  std::string other_member(const conjunction& schemas, const std::vector<std::string>& keys);
  std::string members(const std::vector<member>& named, const std::string& other, std::uint32_t min,
                      std::uint32_t max);

  schema_algebra algebra_;
  std::map<std::vector<schema_ptr>, std::string> rules_;
  std::map<std::string, std::string> names_; ///< of rules, by their bodies
  std::set<std::string> open_;               ///< rules that are being written
  std::string text_;
  std::size_t num_rules_ = 0;
};

/// EBNF for the spellings of a JSON string: as UTF-8, and in ASCII with escapes.
std::string json_text_literal(std::string_view text);

} // namespace paceline::grammar
