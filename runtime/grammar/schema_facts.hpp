#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/grammar/number_ranges.hpp"
#include "runtime/grammar/regex_syntax.hpp"
#include "runtime/grammar/schema_document.hpp"
#include "runtime/grammar/schema_grammar.hpp"
#include "runtime/grammar/schema_types.hpp"
#include "runtime/grammar/text_automaton.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace paceline::grammar {

/// A schema that holds for a value, with where it comes from: "unevaluated" keywords look at the schemas that
/// their own schema includes, and not at others.
struct conjunct {
  schema_ptr schema;     ///< an object
  std::ptrdiff_t parent; ///< index of the schema that includes it; -1: none
};

/// Schemas that hold together. All references and combining keywords are resolved.
using conjunction = std::vector<conjunct>;

/// What is asked of the same schema many times: found once, in time that grows as the schema does. Not
/// thread-safe.
class schema_facts {
 public:
  /// The types that a schema allows, and that all of `schemas` allow.
  type_set types_of(schema_ptr schema);
  type_set types_of(const conjunction& schemas);
  /// Whether "required" of the schema has `key`.
  bool is_required(schema_ptr schema, std::string_view key);
  /// Whether an array, such as that of "enum", has a value with the text canonical_text(value).
  bool lists(const boost::json::value& array, const std::string& value);
  /// canonical_text of a value of the document.
  const std::string& text(const boost::json::value& value);
  /// What its own keywords list, such as the names of "required": values, and more for long texts.
  std::size_t width(schema_ptr schema);
  /// Values that were read to find what is kept.
  std::size_t num_read() const noexcept { return num_read_; }
  /// What may still be spent on automata for the document.
  std::size_t& automaton_work() noexcept { return automaton_work_; }
  /// A pattern of the document.
  const expected<regex_node>& regex(std::string_view pattern);
  /// Whether it matches a part of `text`, in time that grows as the text does; nullopt if it is wrong or its
  /// automaton is too large.
  std::optional<bool> matches(std::string_view pattern, std::string_view text);

 private:
  std::unordered_map<schema_ptr, type_set> types_;
  std::unordered_map<schema_ptr, std::set<std::string_view>> required_;
  std::unordered_map<schema_ptr, std::size_t> widths_;
  std::unordered_map<const boost::json::value*, std::set<std::string>> listed_;
  std::unordered_map<const boost::json::value*, std::string> texts_;
  std::size_t num_read_ = 0;
  std::size_t automaton_work_ = most_schema_cost.automaton_work;
  std::map<std::string, expected<regex_node>, std::less<>> regexes_;
  std::map<std::string, std::optional<text_automaton>, std::less<>> automata_;
};

/// The narrowest bounds of numbers. `is_exact` becomes false if one has more digits than this code handles.
struct number_bounds {
  std::optional<decimal_bound> min;
  std::optional<decimal_bound> max;
  bool is_exact = true;
};
number_bounds bounds_of(const conjunction& schemas);
/// The largest value of the count `keyword`, or the smallest; nullopt if no schema has it. At most 10^9.
std::optional<std::uint32_t> largest(const conjunction& schemas, std::string_view keyword);
std::optional<std::uint32_t> smallest(const conjunction& schemas, std::string_view keyword);

/// The schemas of which "unevaluated..." (`keyword`) holds for a property or an item that the schemas at
/// `is_evaluated` evaluate.
std::vector<schema_ptr> unevaluated(const conjunction& schemas, std::string_view keyword,
                                    const std::vector<bool>& is_evaluated);

} // namespace paceline::grammar
