#pragma once

#include "runtime/base/expected.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace paceline::grammar {

inline std::string_view view(const boost::json::string& text) noexcept { return {text.data(), text.size()}; }

/// A schema (an object or a boolean) in a document; its address is its identity.
using schema_ptr = const boost::json::value*;

/// The value of a keyword of a schema that is an object, or null.
inline const boost::json::value* member(schema_ptr schema, std::string_view keyword) {
  return schema->get_object().if_contains(keyword);
}

/// A parsed JSON Schema: its root, the targets of references, and the place of each schema. A schema with
/// "$id" begins a resource: references and anchors in it are relative to its URI. The target of "$dynamicRef"
/// depends on the resources through which evaluation has come there (JSON Schema's dynamic scope). A resource
/// that is reached with different dynamic anchors is therefore copied for each scope, and a schema's address
/// identifies the schema together with its scope. Not thread-safe.
class schema_document {
 public:
  /// errc::invalid_argument if `text` is not JSON or is nested more than 32 levels deep.
  static expected<schema_document> parse(std::string_view text);

  schema_ptr root() const noexcept { return root_; }
  /// True if the text contains the beginning of "unevaluatedProperties" or "unevaluatedItems".
  bool has_unevaluated() const noexcept { return has_unevaluated_; }
  /// The schema that the reference `keyword` of `from` names. `keyword` is "$ref" or "$dynamicRef", and must
  /// be a string literal, because the view is stored. errc::unsupported if the schema is in another document.
  expected<schema_ptr> resolve(schema_ptr from, std::string_view keyword);

  /// The JSON pointer of a place, as errors name it: "#/properties/name".
  std::string place(schema_ptr where) const;
  error refusal(errc code, schema_ptr where, std::string_view keyword, std::string_view rule) const;

  /// Stores a schema that is not part of the document, such as a rewritten part. Errors about it name the
  /// place of `instead_of`.
  schema_ptr add(boost::json::value schema, schema_ptr instead_of);
  /// The handle of a place in the document: a number by which a stored schema can refer to it. `at_handle`
  /// returns the place.
  std::uint64_t handle_of(const boost::json::value* where);
  const boost::json::value* at_handle(const boost::json::value& handle) const {
    return handles_[handle.to_number<std::uint64_t>()];
  }

 private:
  using anchor_map = std::map<std::string_view, schema_ptr>; ///< the names are views into the document
  struct node {
    schema_ptr parent; ///< null for a root
    std::string_view key;
    std::size_t index; ///< in an array
    std::uint32_t resource;
    std::uint32_t scope;
  };
  struct resource {
    std::string uri; ///< without a fragment
    schema_ptr root;
    anchor_map anchors;
    anchor_map dynamic_anchors;
  };
  /// What a value in the document is: a schema, a container of schemas, or anything else.
  enum class role : std::uint8_t { schema, schemas, other };

  static role role_below(role outer, std::string_view key);
  /// `declares`: true if identifiers and anchors are to be recorded; false in a copy of a resource, whose
  /// identifiers and anchors are recorded already.
  void index(schema_ptr value, node where, role what, bool declares);
  void begin_resource(schema_ptr value, node& where, bool declares);
  expected<schema_ptr> find(schema_ptr from, std::string_view keyword);
  /// The dynamic scope after `resource` is entered from scope `outer`. Of equal anchors it has the outermost.
  std::uint32_t entered(std::uint32_t outer, std::uint32_t resource);
  expected<schema_ptr> target_of(const node& from, std::string_view reference, std::string_view& fragment,
                                 std::string_view& rule) const;
  expected<schema_ptr> in_scope(schema_ptr target, std::uint32_t scope, schema_ptr from,
                                std::string_view keyword);

  std::deque<boost::json::value> kept_; ///< the document, then the schemas of `add`
  schema_ptr root_ = nullptr;
  std::unordered_map<schema_ptr, node> nodes_;
  std::vector<resource> resources_;
  std::map<std::string, std::uint32_t, std::less<>> by_uri_;
  std::vector<anchor_map> scopes_;
  std::map<anchor_map, std::uint32_t> scope_ids_;
  std::map<std::pair<schema_ptr, std::uint32_t>, schema_ptr> copies_;   ///< of roots of resources
  std::map<std::pair<schema_ptr, std::string_view>, schema_ptr> found_; ///< what `resolve` has found
  std::vector<const boost::json::value*> handles_;
  std::unordered_map<const boost::json::value*, std::uint64_t> handle_ids_;
  std::size_t num_scope_entries_ = 0;
  std::size_t size_of_copies_ = 0;
  bool has_unevaluated_ = false;
  std::optional<error> failure_; ///< of `parse`
};

} // namespace paceline::grammar
