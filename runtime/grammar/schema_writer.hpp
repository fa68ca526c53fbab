#pragma once

#include "runtime/grammar/schema_algebra.hpp"
#include "runtime/grammar/schema_grammar.hpp"
#include "runtime/grammar/schema_keywords.hpp"
#include "runtime/grammar/text_automaton.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace paceline::grammar {

/// Appends the alternative `one` to the body of a rule. "" stands for an expression that matches nothing, so
/// it is not appended.
inline void add_alternative(std::string& body, const std::string& one) {
  if (one.empty()) return;
  if (!body.empty()) body += " | ";
  body += one;
}

/// Writes rules for schemas. The result "" stands for a rule or an expression that matches nothing. The first
/// error is in the algebra's `failure`; rules written after it have no meaning.
class schema_writer {
 public:
  explicit schema_writer(schema_document& document) : algebra_(document) {}

  /// The rules for the whole document; "" if no value obeys it.
  std::string write();
  const std::optional<error>& failure() const noexcept { return algebra_.failure(); }
  schema_cost cost();

 private:
  void refuse_endless_values(const std::string& root);
  /// The name of the rule for values that obey all of `roots`.
  std::string value(const std::vector<schema_ptr>& roots);
  /// Adds a rule with that body and returns its name. Rules with the same body become one.
  std::string add_rule(std::string_view prefix, const std::string& body);
  std::string new_name(std::string_view prefix);
  void define(const std::string& name, const std::string& body);

  std::string alternative(const conjunction& schemas);
  /// For schemas with "const" or "enum": nullopt for others.
  std::optional<std::string> listed_values(const conjunction& schemas);
  bool obeys(const boost::json::value& value, const conjunction& schemas);
  std::string literal(const boost::json::value& value, bool may_have_fraction);
  std::string number(const conjunction& schemas, type_set types);
  std::string numbers_within(type_set types, const std::optional<decimal_bound>& min,
                             const std::optional<decimal_bound>& max);
  /// Numbers within bounds, except the numbers in `excluded` (stored as bounds with `is_exclusive` set).
  std::string numbers_between(type_set types, const number_bounds& bounds,
                              std::vector<decimal_bound> excluded);
  std::string multiples(const conjunction& schemas, type_set types, const number_bounds& bounds,
                        const decimal_bound& unit);
  /// EBNF that lists all multiples of `unit` between two bounds; nullopt if there are many.
  std::optional<std::string> listed_multiples(type_set types, const number_bounds& bounds,
                                              const decimal_bound& unit);
  std::string text(const conjunction& schemas);
  /// The conditions of schemas on a text.
  struct text_terms {
    std::vector<std::pair<const regex_node*, bool>> regexes; ///< true: must match; false: must not
    const text_format* format = nullptr;
    schema_ptr format_from = nullptr;
    std::set<std::string> excluded;
    std::optional<std::uint32_t> least, most;

    /// Number of conditions, not counting the largest length.
    std::size_t num_conditions() const {
      return regexes.size() + (format != nullptr ? 1 : 0) + (excluded.empty() ? 0 : 1) +
             (least.value_or(0) > 0 ? 1 : 0);
    }
  };
  /// The same without `format_from`: texts with the same conditions have the same rules.
  using text_key =
      std::tuple<std::vector<std::pair<const regex_node*, bool>>, const text_format*, std::set<std::string>,
                 std::optional<std::uint32_t>, std::optional<std::uint32_t>>;
  std::string new_text(const conjunction& schemas, const text_terms& terms);
  void add_text_terms(const conjunction& schemas, text_terms& to);
  const regex_node* regex_of(schema_ptr from, std::string_view keyword, std::string_view pattern);
  std::string limited_text(const text_terms& terms, schema_ptr from, std::string_view keyword);
  std::string counted_text(const conjunction& schemas, std::uint32_t least,
                           std::optional<std::uint32_t> most);
  /// Adds rules for the texts of an automaton, between quotes, and returns the name of the first rule.
  /// `ending` returns EBNF for what follows a text that obeys these conditions (bit i: condition i).
  std::string automaton_rules(const text_automaton& automaton,
                              const std::function<std::string(std::uint64_t)>& ending);
  /// Adds a rule for the texts of `rule` with at most `max_characters` characters, and returns its name.
  /// `rule` must be able to end after exactly that many.
  std::string budgeted(const std::string& rule, std::uint32_t max_characters);
  /// Counts rules for states within JSON strings (`schema_cost::places`). Each takes up to 20 ms of
  /// compilation with a vocabulary of 152k tokens. False if there are too many.
  bool spend_places(std::size_t count);
  /// EBNF for a JSON string, with quotes and without escapes, that is none of `texts`. If there are many
  /// texts, strings that begin like one of them are excluded, too. "" if too many rules would be needed.
  std::string text_except(const std::set<std::string>& texts);

  std::string array(const conjunction& schemas);
  /// EBNF for `what`, at least `min` and at most `max` times.
  std::string repeated(const std::string& what, std::uint32_t min, std::optional<std::uint32_t> max);
  /// Arrays with "contains", and with "uniqueItems".
  std::string counted_array(const conjunction& schemas);
  std::string unique_array(const conjunction& schemas, schema_ptr from);
  /// The schemas of the item at `index`, including the "contains" of schemas[i] for each i of `matched`.
  std::vector<schema_ptr> item_schemas(const conjunction& schemas, std::size_t index,
                                       const std::vector<std::size_t>& matched);
  /// All values that obey `roots`, as a map from canonical text to EBNF; nullopt if the schemas do not list
  /// them.
  std::optional<std::map<std::string, std::string>> finite_values(const std::vector<schema_ptr>& roots);

  /// Arrays as a state machine. `machine_ways` has the items that may follow in a state: for each the name of
  /// its rule and the state after it. `from` and `keyword` are named in errors.
  using machine_state = std::vector<std::uint32_t>;
  struct machine_ways {
    std::vector<std::pair<std::string, machine_state>> items;
    bool may_end;
  };
  std::string machine(schema_ptr from, std::string_view keyword, const machine_state& start,
                      const std::function<machine_ways(const machine_state&)>& next);

  struct object_member {
    std::string rule; ///< "key": value
    bool is_required;
  };
  std::string object(const conjunction& schemas);
  std::vector<std::string> named_keys(const conjunction& schemas);
  /// A rule for a member that no schema names; "" if there can be none.
  std::string other_member(const conjunction& schemas, const std::vector<std::string>& keys);
  /// `other_member` for schemas with conditions on names ("propertyNames", "patternProperties").
  std::string matched_member(const conjunction& schemas, const std::vector<std::string>& keys);
  struct name_tests;
  enum class names_found { none, tested, unsupported };
  void collect_patterns(const conjunction& schemas, name_tests& to);
  names_found collect_names(name_tests& to);
  /// False if there are too many tests.
  bool put_name_tests(name_tests& to);
  /// A rule for the value of a member whose name obeys the tests in `obeyed` (bit i: test i).
  std::string value_of_member(const conjunction& schemas, const name_tests& tests, std::uint64_t obeyed);
  std::string members(const std::vector<object_member>& named, const std::string& other, std::uint32_t min,
                      std::uint32_t max);

  /// Counts one level of recursion of `value`. The depth is limited because references can nest as deep as
  /// there are schemas, and a thread's stack is finite.
  struct nesting {
    explicit nesting(std::uint32_t& depth) : depth_(depth) { ++depth_; }
    ~nesting() { --depth_; }
    nesting(const nesting&) = delete;
    nesting& operator=(const nesting&) = delete;
    std::uint32_t& depth_;
  };
  static constexpr std::uint32_t max_depth = 500;
  std::uint32_t depth_ = 0;

  schema_algebra algebra_;
  std::map<std::vector<schema_ptr>, std::string> rules_;
  std::map<std::string, std::string> names_; ///< of rules, by their bodies
  std::map<text_key, std::string> texts_;    ///< what `text` has written
  std::set<std::string> open_;               ///< rules that are being written
  std::string text_;
  std::size_t num_rules_ = 0;
  std::size_t num_places_ = 0;
};

/// EBNF for the spellings of a JSON string: as UTF-8, and in ASCII with escapes.
std::string json_text_literal(std::string_view text);

} // namespace paceline::grammar
