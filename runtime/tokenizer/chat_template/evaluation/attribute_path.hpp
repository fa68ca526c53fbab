#pragma once

#include "runtime/tokenizer/chat_template/python/runtime.hpp"

#include <optional>
#include <vector>

namespace paceline::tokenizer::jinja {

/// The `attribute` parameter of filters: a path such as "address.city" or 0, which is followed from an item.
class attribute_path {
 public:
  /// None means the item itself. Throws `failure` if an index in the path exceeds 64 bits.
  attribute_path(runtime& rt, const value& attribute);

  /// The value at the end of the path. `fallback` replaces each undefined value on the path; None: no
  /// replacement.
  value walk(runtime& rt, const value& item, const value& fallback = value::none()) const;

 private:
  std::vector<value> parts_;
};

/// The value by which filters compare `v`: a string in lower case, unless `case_sensitive`; other values as
/// they are.
value case_key(runtime& rt, const value& v, bool case_sensitive);

} // namespace paceline::tokenizer::jinja
