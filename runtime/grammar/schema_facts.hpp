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

/// A schema that a value must obey, and the schema that includes it. The latter matters because
/// "unevaluated..." keywords take into account only the schemas that their own schema includes.
struct conjunct {
  schema_ptr schema;     ///< an object
  std::ptrdiff_t parent; ///< index of the schema that includes it; -1: none
};

/// Schemas that a value must all obey. All references and combining keywords are resolved.
using conjunction = std::vector<conjunct>;

/// Properties of schemas that are needed many times. Each is computed once, in time linear in the size of the
/// schema. Not thread-safe.
class schema_facts {
 public:
  /// The types that a schema allows, or that all of `schemas` allow.
  type_set types_of(schema_ptr schema);
  type_set types_of(const conjunction& schemas);
  /// True if "required" of the schema contains `key`.
  bool is_required(schema_ptr schema, std::string_view key);
  /// True if an array, such as that of "enum", has an element whose canonical text is `value`.
  bool lists(const boost::json::value& array, const std::string& value);
  /// canonical_text of a value of the document.
  const std::string& text(const boost::json::value& value);
  /// Number of values that the schema's own keywords list, such as the names of "required". A long text
  /// counts as more than one value.
  std::size_t width(schema_ptr schema);
  /// Number of values read so far to compute these properties.
  std::size_t num_read() const noexcept { return num_read_; }
  /// Work that may still be spent on automata for the document (`schema_cost::automaton_work`).
  std::size_t& automaton_work() noexcept { return automaton_work_; }
  /// The parsed form of a pattern of the document, or why it is wrong.
  const expected<regex_node>& regex(std::string_view pattern);
  /// True if the pattern matches a part of `text`; takes time linear in the text. nullopt if the pattern is
  /// wrong or its automaton is too large.
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

/// The bound that `keyword` ("minimum", "exclusiveMaximum", ...) with this value states. A maximum of 2^64
/// or more becomes 2^64-1, and a minimum of -2^64 or less becomes -(2^64-1). nullopt if the value has more
/// digits than this code handles.
std::optional<decimal_bound> bound_of(const boost::json::value& value, std::string_view keyword);
/// The narrowest bounds of numbers. `is_exact` is false if a bound is missing here or narrower than its
/// keyword says.
struct number_bounds {
  std::optional<decimal_bound> min;
  std::optional<decimal_bound> max;
  bool is_exact = true;
};
number_bounds bounds_of(const conjunction& schemas);
/// The largest or smallest value that `keyword` (a count such as "minItems") has in `schemas`; values above
/// 10^9 count as 10^9. nullopt if no schema has the keyword.
std::optional<std::uint32_t> largest(const conjunction& schemas, std::string_view keyword);
std::optional<std::uint32_t> smallest(const conjunction& schemas, std::string_view keyword);

/// The values of `keyword` ("unevaluatedProperties" or "unevaluatedItems") that a property or an item must
/// obey. is_evaluated[i]: schemas[i] evaluates this property or item.
std::vector<schema_ptr> unevaluated(const conjunction& schemas, std::string_view keyword,
                                    const std::vector<bool>& is_evaluated);

} // namespace paceline::grammar
