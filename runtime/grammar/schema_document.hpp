#pragma once

#include "runtime/base/expected.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace paceline::grammar {

/// A schema (an object or a boolean) in a document; its address is its identity.
using schema_ptr = const boost::json::value*;

/// The value of a keyword of a schema that is an object, or null.
inline const boost::json::value* member(schema_ptr schema, std::string_view keyword) {
  return schema->get_object().if_contains(keyword);
}

/// A parsed JSON Schema: its root, what references lead to, and where everything stands. Not thread-safe.
class schema_document {
 public:
  /// errc::invalid_argument if `text` is no JSON, or nested more than 32 levels deep.
  static expected<schema_document> parse(std::string_view text);

  schema_ptr root() const noexcept { return root_; }
  /// The schema that a reference names. errc::unsupported if it is in another document.
  expected<schema_ptr> resolve(schema_ptr from, std::string_view reference) const;

  /// The JSON pointer of a place, as errors name it: "#/properties/name".
  std::string place(schema_ptr where) const;
  error refusal(errc code, schema_ptr where, std::string_view keyword, std::string_view rule) const;

  /// Keeps a schema that stands in no document, such as a rewritten part; errors name it as `instead_of`.
  schema_ptr add(boost::json::value schema, schema_ptr instead_of);

 private:
  void index(schema_ptr value, const std::string& place);

  std::deque<boost::json::value> kept_; ///< the document, then what was added
  schema_ptr root_ = nullptr;
  std::string id_; ///< of the root, without its fragment
  std::unordered_map<schema_ptr, std::string> places_;
  std::unordered_map<std::string, schema_ptr> anchors_;
  std::unordered_map<std::string, int> num_dynamic_anchors_;
  bool has_own_keyword_ = false;   ///< a name that only rewritten schemas may have
  schema_ptr nested_id_ = nullptr; ///< a schema below the root that has "$id"
};

} // namespace paceline::grammar
