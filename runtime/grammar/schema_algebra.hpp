#pragma once

#include "runtime/grammar/number_ranges.hpp"
#include "runtime/grammar/schema_document.hpp"
#include "runtime/grammar/schema_types.hpp"

#include <boost/json/value.hpp>

#include <cstddef>
#include <optional>
#include <string>
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

/// Turns schemas into alternatives without "$ref", "allOf", "anyOf", "oneOf", "not", "if" and "dependent...".
/// The first error stops all work: check `failure` in the end. Not thread-safe.
class schema_algebra {
 public:
  explicit schema_algebra(schema_document& document) : document_(document) {}

  /// A value obeys all of `roots` if it obeys one of the alternatives.
  std::vector<conjunction> alternatives(const std::vector<schema_ptr>& roots);

  /// Whether a value obeys a schema; nullopt where this code cannot tell.
  std::optional<bool> is_valid(const boost::json::value& value, schema_ptr schema, std::size_t depth = 0);

  /// The schemas of member `key` of objects that obey `schemas`; `is_known`: some schema names it.
  std::vector<schema_ptr> member_schemas(const conjunction& schemas, std::string_view key);
  /// The schemas of members that no schema names.
  std::vector<schema_ptr> other_member_schemas(const conjunction& schemas);
  bool is_required(const conjunction& schemas, std::string_view key) const;

  schema_document& document() noexcept { return document_; }
  const std::optional<error>& failure() const noexcept { return failure_; }
  void refuse(errc code, schema_ptr where, std::string_view keyword, std::string_view rule);
  void fail(error failure) {
    if (!failure_) failure_ = std::move(failure);
  }

 private:
  struct branch {
    schema_ptr schema;
    bool is_included = true; ///< "unevaluated" keywords of the including schema see it
  };
  /// One of several lists of schemas must hold.
  struct choice {
    std::vector<std::vector<branch>> lists;
    std::ptrdiff_t parent;
    schema_ptr one_of = nullptr; ///< the lists are still to be made from its "oneOf"
  };
  struct partial {
    conjunction schemas;
    std::vector<choice> open;
  };

  /// False if no value obeys the result.
  bool add(partial& to, schema_ptr schema, std::ptrdiff_t parent);
  void add_choices(partial& to, schema_ptr schema, std::ptrdiff_t self);
  choice resolved(const partial& in, choice open);
  void add_dependencies(partial& to, schema_ptr schema, std::ptrdiff_t self);
  /// Whether certainly no value obeys all of `schemas` and `more`. False if in doubt.
  bool is_empty(const conjunction& schemas, const std::vector<schema_ptr>& more, std::size_t depth);
  bool is_empty(const conjunction& schemas, std::size_t depth);
  /// Schemas of which one holds where `schema` does not; nullopt if this code cannot say.
  std::optional<std::vector<schema_ptr>> negation(schema_ptr schema, std::size_t depth = 0);
  std::optional<bool> is_valid_object(const boost::json::object& value, schema_ptr schema, std::size_t depth);
  std::optional<bool> is_valid_array(const boost::json::array& value, schema_ptr schema, std::size_t depth);
  std::optional<bool> is_valid_scalar(const boost::json::value& value, schema_ptr schema);
  bool spend(std::size_t steps, schema_ptr where);

  schema_document& document_;
  std::optional<error> failure_;
  std::size_t steps_ = 0;
};

/// The types that all of `schemas` allow.
type_set types_of(const conjunction& schemas);
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
/// Whether `above` is `below` or includes it.
bool includes(const conjunction& schemas, std::size_t above, std::size_t below);

} // namespace paceline::grammar
