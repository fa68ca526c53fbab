#pragma once

#include "runtime/tokenizer/chat_template/python/runtime.hpp"

#include <optional>
#include <string>

namespace paceline::tokenizer::jinja {

/// Parameters of Python's json.dumps. The defaults are those of `tojson` in transformers' templates.
struct json_style {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent; ///< one level of indentation; nullopt: everything on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

/// The text that json.dumps gives for `v`. Throws `failure` for values that cannot be serialized.
std::string json_text(runtime& rt, const value& v, const json_style& style);

} // namespace paceline::tokenizer::jinja
