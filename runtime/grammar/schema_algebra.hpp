#pragma once

#include "runtime/grammar/schema_document.hpp"
#include "runtime/grammar/schema_facts.hpp"

#include <boost/json/value.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace paceline::grammar {

/// Turns schemas of JSON Schema into alternatives (conjunctions) without "$ref", "allOf", "anyOf", "oneOf",
/// "not", "if" and "dependent...". The first error stops all work: check `failure` at the end. Not
/// thread-safe.
class schema_algebra {
 public:
  explicit schema_algebra(schema_document& document) : document_(document) {}

  /// A value obeys all of `roots` if it obeys one of the alternatives. More than `max_alternatives` are
  /// refused.
  std::vector<conjunction> alternatives(const std::vector<schema_ptr>& roots);
  static constexpr std::size_t max_alternatives = 64;
  /// If `roots` is one "anyOf" of more than `max_alternatives` schemas without conditions beside it: schemas
  /// such that a value must obey at least one of them. Empty otherwise.
  std::vector<schema_ptr> separate_alternatives(const std::vector<schema_ptr>& roots);

  /// True if `value` obeys `schema`; nullopt where this code cannot tell.
  std::optional<bool> is_valid(const boost::json::value& value, schema_ptr schema, std::size_t depth = 0);

  /// The schemas that member `key` must obey in objects that obey `schemas`.
  std::vector<schema_ptr> member_schemas(const conjunction& schemas, std::string_view key);
  /// The schemas that a member must obey if no schema names it.
  std::vector<schema_ptr> other_member_schemas(const conjunction& schemas);
  bool is_required(const conjunction& schemas, std::string_view key);
  type_set types_of(const conjunction& schemas) { return facts_.types_of(schemas); }
  /// True if one of `schemas` excludes this value by one of this project's own keywords
  /// (schema_keywords.hpp).
  bool is_excluded(const conjunction& schemas, const boost::json::value& value);
  /// The values of `types` that `schemas` exclude in this way.
  std::vector<const boost::json::value*> excluded_values(const conjunction& schemas, type_set types);
  /// A schema that a value obeys if and only if it does not obey `schema`; nullptr if this code cannot
  /// construct it.
  schema_ptr opposite_of(schema_ptr schema);

  schema_document& document() noexcept { return document_; }
  schema_facts& facts() noexcept { return facts_; }
  /// Steps of work so far plus the values that `facts` has read.
  std::size_t num_steps() const noexcept { return steps_ + facts_.num_read(); }
  /// Counts `steps`. Refuses the schema at `where` if the sum exceeds 200,000. False after any failure.
  bool spend(std::size_t steps, schema_ptr where);
  const std::optional<error>& failure() const noexcept { return failure_; }
  void refuse(errc code, schema_ptr where, std::string_view keyword, std::string_view rule);
  void fail(error failure) {
    if (!failure_) failure_ = std::move(failure);
  }

 private:
  struct branch {
    schema_ptr schema;
    bool is_included = true; ///< "unevaluated..." keywords of the including schema consider this schema
  };
  using branch_lists = std::vector<std::vector<branch>>;
  /// A value must obey all schemas of at least one of several lists.
  struct choice {
    std::shared_ptr<const branch_lists> lists;
    std::ptrdiff_t parent;
    schema_ptr one_of = nullptr; ///< if set, `lists` is yet to be made from the "oneOf" of this schema
  };
  struct partial {
    conjunction schemas;
    std::vector<choice> open;
  };
  using schema_list = std::vector<schema_ptr>;
  using value_list = std::vector<const boost::json::value*>;
  using numbered_lists = std::vector<std::pair<std::size_t, value_list>>; ///< by the number of an alternative
  /// An alternative of "anyOf" or "oneOf".
  struct alternative {
    schema_ptr whole;
    schema_ptr allowed; ///< the same without the values that several alternatives of "oneOf" list
    std::size_t number; ///< in the keyword's list
  };

  /// False if no value obeys the result.
  bool add(partial& to, schema_ptr schema, std::ptrdiff_t parent);
  void add_choices(partial& to, schema_ptr schema, std::ptrdiff_t self);
  /// The choices that `schema` contains, without its "oneOf". Computed once.
  const std::vector<choice>& choices_of(schema_ptr schema);
  void put_negation(schema_ptr schema, std::vector<choice>& out);
  void put_condition(schema_ptr schema, std::vector<choice>& out);
  void put_dependencies(schema_ptr schema, std::vector<choice>& out);
  choice resolved(const partial& in, choice open);
  /// The alternatives of `keyword` ("anyOf" or "oneOf", a string literal). Alternatives that only list
  /// values are merged: those with the type "integer" into one, the others into another one. Computed once.
  const std::vector<alternative>& united(schema_ptr schema, std::string_view keyword);
  std::vector<alternative> united_lists(schema_ptr schema, std::string_view keyword,
                                        const numbered_lists& lists);
  /// The values that a schema lists with "const" and "enum"; nullopt if it has other conditions than these
  /// and "type".
  std::optional<value_list> only_values(schema_ptr schema);
  /// The named members whose values the schema lists.
  const std::vector<std::string_view>& tags_of(schema_ptr schema);
  /// A schema that requires a member. No value obeys all three: `a`, `b` and this schema. nullptr if there is
  /// none. `a` and `b` are alternatives of the "oneOf" of `one_of`, and both list values of the member.
  schema_ptr separating_member(const partial& in, schema_ptr one_of, schema_ptr a, schema_ptr b);
  /// Stores a rewritten part of `schema`. Costs one step for each value in it.
  schema_ptr keep(boost::json::value part, schema_ptr schema);
  /// True if certainly no value obeys all of `schemas` and `more`; false if in doubt.
  bool is_empty(const conjunction& schemas, const std::vector<schema_ptr>& more, std::size_t depth);
  bool is_empty(const conjunction& schemas, std::size_t depth);
  /// A list of schemas: a value obeys at least one of them if and only if it does not obey `schema`. nullopt
  /// if this code cannot construct it. Computed once.
  const std::optional<schema_list>& negation(schema_ptr schema, std::size_t depth = 0);
  std::optional<schema_list> make_negation(schema_ptr schema, std::size_t depth);
  bool negate_keyword(schema_ptr schema, std::string_view name, const boost::json::value& value,
                      std::size_t depth, schema_list& out);
  bool negate_members(schema_ptr schema, std::string_view name, const boost::json::value& value,
                      std::size_t depth, schema_list& out);
  bool negate_items(schema_ptr schema, std::string_view name, const boost::json::value& value,
                    std::size_t depth, schema_list& out);
  bool negate_combination(schema_ptr schema, std::string_view name, const boost::json::value& value,
                          std::size_t depth, schema_list& out);
  /// One "anyOf" of `schemas`, to be put into another schema.
  boost::json::value any_of(const schema_list& schemas);
  boost::json::object here(schema_ptr schema);
  std::optional<boost::json::value> inverse(schema_ptr schema, std::size_t depth);
  schema_ptr referred(schema_ptr from, std::string_view keyword);
  bool check(schema_ptr schema);
  bool is_excluded(schema_ptr schema, const std::string& text);
  std::optional<bool> matches_pattern(std::string_view pattern, std::string_view text, schema_ptr where);
  void refuse_pattern(std::string_view pattern, schema_ptr where, std::string_view keyword);
  std::optional<bool> is_valid_object(const boost::json::object& value, schema_ptr schema, std::size_t depth);
  std::optional<bool> is_valid_array(const boost::json::array& value, schema_ptr schema, std::size_t depth);
  std::optional<bool> is_valid_scalar(const boost::json::value& value, schema_ptr schema);
  /// Checks the schema's own keywords only, without the schemas that it refers to or combines for the same
  /// value.
  std::optional<bool> is_valid_alone(const boost::json::value& value, schema_ptr schema, std::size_t depth);
  std::optional<bool> is_valid_combination(const boost::json::value& value, schema_ptr schema,
                                           std::size_t depth);

  schema_document& document_;
  schema_facts facts_;
  std::unordered_set<schema_ptr> checked_;
  std::unordered_map<schema_ptr, std::vector<choice>> choices_;
  std::map<std::pair<schema_ptr, std::string_view>, std::vector<alternative>> united_; ///< by schema, keyword
  std::unordered_map<schema_ptr, std::vector<std::string_view>> tags_;
  std::map<std::pair<schema_ptr, std::string_view>, schema_ptr> required_members_;     ///< by "oneOf", name
  std::map<std::pair<schema_ptr, std::size_t>, std::optional<schema_list>> negations_; ///< by schema, depth
  std::unordered_map<schema_ptr, schema_ptr> opposites_;
  std::optional<error> failure_;
  std::size_t steps_ = 0;
};

} // namespace paceline::grammar
