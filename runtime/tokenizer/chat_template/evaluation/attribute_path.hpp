#pragma once

#include "runtime/tokenizer/chat_template/python/runtime.hpp"

#include <optional>
#include <vector>

namespace paceline::tokenizer::jinja {

/// The `attribute` parameter of filters: a path such as "address.city" or 0, walked from an item.
class attribute_path {
 public:
  /// `attribute` may be None, for the item itself.
  attribute_path(runtime& rt, const value& attribute);

  /// `fallback` replaces undefined values on the path; None: no fallback.
  value walk(runtime& rt, const value& item, const value& fallback = value::none()) const;

 private:
  std::vector<value> parts_;
};

/// Lower case for strings, unless `case_sensitive`; other values unchanged.
value case_key(runtime& rt, const value& v, bool case_sensitive);

} // namespace paceline::tokenizer::jinja
